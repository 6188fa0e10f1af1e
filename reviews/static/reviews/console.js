/* Comfort for the console: theme, zone, ages, polling, kept selection, copy, double clicks. Every page reads and works
   without it. Listeners sit on document; nothing is evaluated; it runs before first paint so that the theme never flashes. */
(() => {
  "use strict";
  const root = document.documentElement;
  const all = (selector, within = document) => within.querySelectorAll(selector);
  const recall = (name) => { try { return localStorage.getItem(`agentq-${name}`); } catch { return null; } };
  const remember = (name, value) => { try { localStorage.setItem(`agentq-${name}`, value); } catch { /* private mode */ } };
  const skew = Date.parse(root.dataset.now) - Date.now(); // ages count from the server's clock

  // --- Theme and zone: a choice is remembered in this browser; the zone also goes to the server (Z2) ---
  const chosen = { theme: recall("theme") || "system", zone: recall("zone") || "local", rate: recall("rate") || "5", keys: recall("keys") || "on" };
  const localZone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const zone = () => (chosen.zone === "UTC" ? "UTC" : localZone);
  function applyChoices() {
    root.dataset.keys = chosen.keys;
    if (chosen.theme === "system") delete root.dataset.theme; else root.dataset.theme = chosen.theme;
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `agentq-zone=${zone()}; path=/; max-age=31536000; samesite=lax${secure}`;
  }
  root.dataset.js = "";
  if (navigator.clipboard) root.dataset.clip = "";
  applyChoices();
  document.addEventListener("change", ({ target }) => {
    if (target.dataset.pickAll) for (const el of all(`tbody [name=${target.dataset.pickAll}]`, target.form)) el.checked = target.checked;
    if (target.type === "checkbox") countPicked();
    const name = target.dataset.choice;
    if (!name) return;
    chosen[name] = target.value;
    remember(name, target.value);
    applyChoices();
    if (name === "zone") location.reload();
    if (name === "rate") planPoll();
  });

  // --- Picked rows: how many ---
  function countPicked() {
    for (const el of all("[data-picked]")) el.textContent = all("tbody :checked", el.closest("form")).length;
  }

  // --- Ages: the same words as the `ago` template tag ---
  function ages() {
    const [s, min, h, d] = root.dataset.units.split("|");
    for (const el of all("time[data-ago]")) {
      const t = Math.floor(Math.abs(Date.now() + skew - Date.parse(el.dateTime)) / 1000);
      const rest = Math.floor(t / 60) % 60;
      const hours = `${Math.floor(t / 3600)} ${h}` + (rest ? ` ${rest} ${min}` : "");
      el.textContent = t < 60 ? `${t} ${s}` : t < 3600 ? `${rest} ${min}` : t < 86400 ? hours : `${Math.floor(t / 86400)} ${d}`;
    }
  }
  setInterval(ages, 10000);

  // --- Polling: [data-poll] regions ask again through htmx; a hidden tab and a paused page ask nothing (U4) ---
  let timer, failures = 0;
  function planPoll() {
    clearTimeout(timer);
    if (Number(chosen.rate) && !document.hidden) timer = setTimeout(poll, chosen.rate * (800 + 400 * Math.random()));
  }
  function poll() {
    for (const el of all("[data-poll]")) el.dispatchEvent(new Event("poll"));
    planPoll();
  }
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || !Number(chosen.rate)) clearTimeout(timer); else poll();
  });
  const show = (id, on) => { for (const el of all(`#${id}`)) el.hidden = !on; };
  const signedOut = (xhr) => xhr.responseURL && new URL(xhr.responseURL).pathname === root.dataset.login;
  function markFresh(answered) {
    const at = new Date(answered || Date.now() + skew);
    for (const el of all("[data-as-of]")) {
      el.dateTime = at.toISOString();
      el.title = at.toISOString().slice(0, 19).replace("T", " ") + " UTC";
      el.textContent = at.toLocaleTimeString("en-GB", { timeZone: zone() });
    }
  }
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    const out = signedOut(detail.xhr);
    release(detail.elt);
    show("signed-out", out);
    if (detail.requestConfig.triggeringEvent?.type !== "poll") return;
    failures = detail.successful && !out ? 0 : failures + 1;
    if (!failures) markFresh(detail.xhr.getResponseHeader("Date"));
    show("stale", failures > 1 && !out);
  });

  // --- Requests and swaps: token for our own unsafe requests only; never a sign-in page inside a table. The token comes
  //     from the cookie, so that a page left open outlives a new sign-in in another tab. ---
  const csrfToken = () => document.cookie.split("; ").find((part) => part.startsWith(`${root.dataset.csrf}=`))?.split("=")[1] || "";
  document.addEventListener("htmx:configRequest", ({ detail }) => {
    const own = new URL(detail.path, location.href).origin === location.origin;
    if (own && !["get", "head"].includes(detail.verb)) detail.headers["X-CSRFToken"] = csrfToken();
  });
  const KEPT = { "input[id]:is([type=checkbox],[type=radio])": "checked", "details[id]": "open", ".scroll[id]": "scrollLeft",
    "input[id]:is([type=text],[type=number]), textarea[id]": "value" };
  let kept = [];
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (signedOut(detail.xhr)) detail.shouldSwap = false;
    kept = Object.entries(KEPT).flatMap(([what, prop]) => [...all(what)].map((el) => [el.id, prop, el[prop]]));
  });
  document.addEventListener("htmx:afterSwap", () => {
    for (const [id, prop, value] of kept) {
      const el = document.getElementById(id);
      if (el) el[prop] = value;
    }
    ages(); countPicked(); focusErrors();
  });
  const focusErrors = () => { for (const el of all("[data-focus]")) { el.removeAttribute("data-focus"); el.focus(); } };

  // --- Clicks: copy, try again, close menus; a form is sent once ---
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-copy]");
    if (button) navigator.clipboard.writeText(button.dataset.copy).then(() => { button.textContent = button.dataset.done; });
    if (target.closest("[data-poll-now]")) poll();
    for (const menu of all("details.menu[open]")) if (!menu.contains(target)) menu.open = false;
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    if ("sent" in form.dataset) { event.preventDefault(); event.stopPropagation(); return; }
    form.dataset.sent = "";
    if (form.csrfmiddlewaretoken && csrfToken()) form.csrfmiddlewaretoken.value = csrfToken();
  }, true);
  const release = (form) => { if (form?.dataset) delete form.dataset.sent; };
  addEventListener("pageshow", () => { for (const form of all("form[data-sent]")) release(form); });
  document.addEventListener("DOMContentLoaded", () => {
    for (const el of all("[data-choice]")) el.value = chosen[el.dataset.choice];
    ages(); countPicked(); focusErrors(); planPoll();
  });
})();
