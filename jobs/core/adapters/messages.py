"""Known wordings of known tools, each with the typed code it stands for: git, curl, Go, apt, docker, agent CLIs (F2).

Matched on folded text. A tool's fixed message is its format, so these codes count as structured evidence.
"""

import re
from typing import Final

_WORDINGS: Final[dict[str, tuple[str, ...]]] = {
    "dns_failure": (
        r"could not resolve (?:host|proxy)|temporary failure (?:in name resolution|resolving)",
        r"name or service not known|getaddrinfo|nodename nor servname|no such host|failed to lookup address|eai_again",
        r"name resolution failed|dns lookup failed",
    ),
    "tls_handshake_timeout": (r"tls handshake timeout|ssl connection timeout|handshake (?:has )?timed out",),
    "connect_timeout": (
        r"\bdial (?:tcp|udp)[^\n]{0,80}(?:i/o timeout|connection timed out)|connecttimeout|connect timeout at",
        r"failed to connect to [^\n]{0,80}(?:time|refused|connect)|connection timed out after \d",
        r"^error connecting to |ssh: connect to host [^\n]{0,80}(?:timed out|no route|unreachable)",
    ),
    "connection_refused": (
        r"\bdial (?:tcp|udp)[^\n]{0,80}connection refused|\beconnrefused\b",
        r"ssh: connect to host [^\n]{0,80}refused",
        r"\(connection refused\)|connection refused \(",
    ),
    "connection_lost": (
        r"\b(?:read|write) tcp [^\n]{0,120}(?:reset|timeout|broken pipe|closed network)|early eof",
        r"rpc failed; (?:curl|http)|the remote end hung up|recv failure|send failure",
        r"unexpected disconnect while reading|fetch-pack: ",
        r"spurious network error",
        r"failure when receiving data|unexpected eof|http/2 stream \d{1,5} was not closed cleanly",
        r"curl: \((?:18|28|35|52|55|56|92)\)|curl (?:18|28|52|55|56|92)",
        r"connection closed before message completed|error sending request for url|error trying to connect",
    ),
    "stream_lost": (
        r"stream disconnected before completion|stream closed before response",
        r"stream idle timeout|idle timeout waiting for|streamtruncated|incomplete chunked",
        r"api error: connection dropped|premature close|response ended prematurely|peer closed connection",
    ),
    "request_timeout": (r"^(?:api error: |error: |\[api error: )?request timed out|: operation timed out",),
    "git_index_lock": (r"index\.lock'?: file exists",),
    "runner_lost": (
        r"runner has received a shutdown signal|lost communication with the server|runner lost communication",
        r"runner (?:was|has been) (?:lost|shut|terminated|evicted|preempted)|runner[_ ]system[_ ]failure",
        r"spot (?:instance )?(?:interruption|preempt|terminat)|no longer heartbeat|missed heartbeats?",
        r"(?:instance|node|vm|machine) (?:was |has been |is being )?(?:preempted|evicted)",
    ),
    "container_lost": (
        r"no such container|error waiting for container|runtime (?:container )?(?:crashed|disconnected|not ready)",
        r"container [^\n]{0,80}(?:is not running|not found|has (?:died|exited|vanished)|disappeared|was removed)",
        r"container [^\n]{0,80}stopped unexpectedly|\bpods? [^\n]{0,80}(?:evicted|was deleted|not found)",
        r"sandbox (?:container )?(?:was )?(?:lost|terminated|vanished|not found)",
    ),
    "rate_limit_exceeded": (r"rate limit exceeded: |exceeded retry limit, last status: 429",),
    "server_overloaded": (r"selected model is at capacity|currently experiencing high demand",),
}

# What says that the machine under a run went away; also read in a verifier's report.
HOST_CODES: Final = frozenset({"runner_lost", "container_lost"})
KNOWN: Final = tuple((re.compile("|".join(patterns), re.MULTILINE), code) for code, patterns in _WORDINGS.items())
