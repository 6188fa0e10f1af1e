/* Single-key shortcuts: they move, choose and open, they never send; Ctrl+Enter sends the form in which one types.
   Off by choice (data-keys on the root), ignored while typing. Every key has a visible control of its own. */
(() => {
  "use strict";
  const all = (selector) => [...document.querySelectorAll(selector)];
  const typing = (el) => el.closest("textarea, select, input:not([type=checkbox]):not([type=radio])") !== null;
  let before = "";

  function move(step) {
    const rows = all("[data-row]");
    if (!rows.length) return false;
    const at = rows.indexOf(document.activeElement);
    rows[at < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, at + step))].focus();
    return true;
  }
  function file(step) {
    const files = all("[data-file]");
    const at = files.indexOf(document.activeElement.closest("[data-file]"));
    files[at < 0 ? 0 : Math.max(0, Math.min(files.length - 1, at + step))]?.focus();
  }
  function press(key) {
    const el = document.querySelector(`[data-key="${CSS.escape(key)}"]:not(:disabled)`);
    if (!el) return false;
    if (el.matches("a")) { el.click(); return true; }
    for (let box = el.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
    if (el.matches("[type=radio]")) {
      el.checked = true;
      (el.value === "request_changes" ? openNote() : document.getElementById("id_reason")).focus();
    } else el.focus();
    return true;
  }
  function openNote() {
    const note = document.getElementById("id_note");
    note.closest("details").open = true;
    return note;
  }

  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (key === "Enter" && (event.ctrlKey || event.metaKey)) {
      const form = target.closest("form[data-keys]");
      if (form) { event.preventDefault(); form.requestSubmit(); }
      return;
    }
    if (key === "Escape" && typing(target)) { target.blur(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || typing(target) || document.documentElement.dataset.keys === "off") return;
    const pair = before + key;
    before = key === "g" ? "g" : "";
    const go = { gr: "/reviews/", gj: "/jobs/" }[pair];
    if (go) { location.assign(go); return; }
    const done =
      key === "?" ? (location.assign("/preferences/#h-keys"), true)
      : key === "[" || key === "]" ? (file(key === "[" ? -1 : 1), true)
      : key === "v" ? (document.activeElement.closest("[data-file]")?.querySelector("[type=checkbox]")?.click(), true)
      : "jk".includes(key) && move(key === "j" ? 1 : -1) ? true
      : key === "Enter" ? target === document.body && press("Enter")
      : /^[a-z]$/.test(key) && press(key);
    if (done) event.preventDefault();
  });
})();
