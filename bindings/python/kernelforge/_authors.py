"""Authors of candidates beside the templates: a model behind an endpoint, or a stored study that is run again.

It owns their settings, what is wrong with them in words, and what a report says of them. It refuses to call anybody, and to read a key: the core does both.
"""

from __future__ import annotations

import logging
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._callers import Author
from ._progress import Progress
from .errors import UsageFault

log = logging.getLogger("kernelforge")

IN_FLIGHT = 4  # calls
_MOST_IN_FLIGHT = 256
_MOST_TOKENS = 10**12
MORE = [
    "organization",
    "insecure_http",
    "temperature",
    "top_p",
    "max_tokens",
    "tokens_field",
    "effort",
    "whole",
    "connect_s",
    "first_byte_s",
    "between_s",
    "total_s",
    "attempts",
    "backoff_s",
    "max_wait_s",
    "requests_per_minute",
    "tokens_per_minute",
    "max_reply_bytes",
]  # settings without a name of their own
_VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID")  # that the core may look up


@dataclass(frozen=True)
class Authors:
    """The authors of a search and what they may spend, checked.

    Args:
        names: `openai:MODEL` or `replay:STUDY`.
        functions: of the user's, that propose as well.
        base_url: address of the server; None: OPENAI_BASE_URL, then OpenAI's.
        api_key_env, api_key_file: where the key is; None: OPENAI_API_KEY. A server on this machine needs none.
        max_cost: USD, for the whole study; 0: no author is called; None: no limit.
        max_tokens_in, max_tokens_out: of the whole study.
        in_flight: calls side by side.
        price_file: prices over the shipped table.
        more: settings without a name of their own here, by those of docs/authors.md; the core checks their values.
    """

    names: tuple[str, ...] = ()
    functions: tuple[Author, ...] = ()
    base_url: str | None = None
    api_key_env: str | None = None
    api_key_file: str | os.PathLike[str] | None = None
    max_cost: float | None = None
    max_tokens_in: int | None = None
    max_tokens_out: int | None = None
    in_flight: int = IN_FLIGHT
    price_file: str | os.PathLike[str] | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.names:
            kind, colon, what = name.partition(":")
            if kind not in ("openai", "replay") or not colon or not what:
                raise UsageFault(
                    f"optimize with the author `{name}`: there is no such author (expected openai:MODEL or replay:STUDY)",
                    hint="openai:MODEL is a model behind any server of OpenAI's chat completions, base_url (--base-url) names the server",
                )
        if len(set(self.names)) < len(self.names):
            twice = next(n for n, k in Counter(self.names).items() if k > 1)
            raise UsageFault(f"optimize with the author `{twice}`: it is named twice")
        if len(self.names) + len(self.functions) > 1 and any(n.startswith("replay:") for n in self.names):
            raise UsageFault(
                f"optimize with {len(self.names) + len(self.functions)} authors, one of them a recording: a study that is run again has no other author"
            )
        if self.max_cost is not None and not 0 <= self.max_cost < math.inf:
            raise UsageFault(
                f"optimize with max_cost={self.max_cost}: expected USD, 0 or more", hint="0 calls no author"
            )
        for what, tokens in (("max_tokens_in", self.max_tokens_in), ("max_tokens_out", self.max_tokens_out)):
            if tokens is not None and not 0 <= tokens <= _MOST_TOKENS:
                raise UsageFault(f"optimize with {what}={tokens}: expected 0 to {_MOST_TOKENS} tokens")
        if not 1 <= self.in_flight <= _MOST_IN_FLIGHT:
            raise UsageFault(
                f"optimize with calls_in_flight={self.in_flight}: expected 1 to {_MOST_IN_FLIGHT}"
            )
        if self.api_key_env is not None and not re.fullmatch(
            r"[A-Za-z_][A-Za-z0-9_]{0,63}", self.api_key_env
        ):
            raise UsageFault(  # it may be the key itself: it is not repeated
                "optimize with api_key_env: this is not the name of a variable (expected letters, digits and `_`)",
                hint="name the variable that holds the key, never the key itself",
            )
        if unknown := sorted(set(self.more) - set(MORE)):
            raise UsageFault(
                f"optimize with author_settings: there is no `{unknown[0]}`", hint=f"one of {', '.join(MORE)}"
            )
        given = [what for what, value in self._of_authors() if value is not None]
        if given and not self.names:
            raise UsageFault(
                f"optimize with {', '.join(given)}: no author is named",
                hint='authors=["openai:MODEL"] (--author openai:MODEL)',
            )

    def _of_authors(self) -> list[tuple[str, object]]:
        return [
            ("base_url", self.base_url),
            ("api_key_env", self.api_key_env),
            ("api_key_file", self.api_key_file),
            ("max_cost", self.max_cost),
            ("max_tokens_in", self.max_tokens_in),
            ("max_tokens_out", self.max_tokens_out),
            ("price_file", self.price_file),
            ("author_settings", self.more or None),
        ]

    def __bool__(self) -> bool:
        return bool(self.names or self.functions)

    def request(self) -> list[dict[str, Any]]:
        """Return what the core is told of them. The key is read by the core from the variables that it is handed here, of this moment."""
        names = {*_VARIABLES, *([self.api_key_env] if self.api_key_env else [])}
        variables = {n: os.environ[n] for n in sorted(names) if n in os.environ}
        config = {
            "base_url": self.base_url,
            "api_key_env": self.api_key_env,
            "api_key_file": _path(self.api_key_file),
            "price_file": _path(self.price_file),
        }
        told = {k: v for k, v in config.items() if v} | dict(self.more)
        return [
            {"name": n, **({"variables": variables, **told} if n.startswith("openai:") else {})}
            for n in self.names
        ]

    def settings(self) -> dict[str, Any]:
        """Return their part of a study's settings."""
        limits = {
            "max_cost": self.max_cost,
            "max_tokens_in": self.max_tokens_in,
            "max_tokens_out": self.max_tokens_out,
        }
        return (
            {"calls_in_flight": self.in_flight, **{k: v for k, v in limits.items() if v is not None}}
            if self
            else {}
        )

    def wishes(self) -> dict[str, Any]:
        """Return which limits must be the same for a stored result to answer; nothing without authors, as in results from before there were any."""
        if not self.names:
            return {}
        return {
            "max_cost": self.max_cost,
            "max_tokens_in": self.max_tokens_in,
            "max_tokens_out": self.max_tokens_out,
        }


NONE = Authors()


def checked(authors: str | Author | Sequence[str | Author], **settings: Any) -> Authors:
    """Return the authors that a user names: one, or several; names and functions."""
    given = [authors] if isinstance(authors, str) or callable(authors) else list(authors)
    names = tuple(a for a in given if isinstance(a, str))
    return Authors(names, tuple(a for a in given if not isinstance(a, str)), **settings)


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.path.abspath(os.path.expanduser(path))


# ---- what came of them ------------------------------------------------------------------------------------------


def spent(study: dict[str, Any], runs: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return what authors brought and took, for a report; None if none was asked.

    {calls, tokens_in, tokens_out, usd, forecast: [{author, calls, tokens_in, tokens_out, usd, priced, seconds, ends?, basis}], sources: [{author, asked, judged, valid, mended, unfinished, repairs, gain, seconds, usd, ...}],
     yields: [{author, op, judged, valid, mended, unfinished}], stopped: [{author, why, op}]}
    """
    sources: dict[str, dict[str, Any]] = {}
    yields, stopped = [], [{"author": s["author"], "why": s["why"], "op": ""} for s in study["stopped"]]
    for run in runs:
        for s in run["sources"]:
            whole = sources.setdefault(
                s["author"], {"author": s["author"], **dict.fromkeys(_SUMS, 0), "gain": 1.0}
            )
            for key in _SUMS:
                whole[key] += s[key]
            whole["gain"] *= s["gain"]
            if s["judged"] and s["author"] not in _OWN:
                counts = {k: s[k] for k in ("judged", "valid", "mended", "unfinished")}
                yields.append({"author": s["author"], "op": run["overload"], **counts})
            if s["stopped"]:
                stopped.append({"author": s["author"], "why": s["stopped"], "op": run["overload"]})
    if not set(sources) - set(_OWN) and not stopped:
        return None
    spend = study["spend"]
    totals = {k: spend[k] for k in ("calls", "tokens_in", "tokens_out", "usd")}
    forecast = [{k: v for k, v in f.items() if k != "text"} for f in study["forecast"]]
    return {
        **totals,
        "forecast": forecast,
        "sources": list(sources.values()),
        "yields": yields,
        "stopped": stopped,
    }


_OWN = ("template", "submitted")
_SUMS = (
    "asked",
    "judged",
    "valid",
    "mended",
    "unfinished",
    "repairs",
    "seconds",
    "calls",
    "tokens_in",
    "tokens_out",
    "usd",
)


def lines(authors: dict[str, Any] | None) -> list[str]:
    """Return what a report says of authors: spend, gain by source, yield before and after repair, who stopped and why."""
    if not authors:
        return []
    out = [
        f"authors: {money(authors['usd'])}, {authors['calls']} calls paid, {authors['tokens_in']:,} tokens in, {authors['tokens_out']:,} out"
    ]
    for f in authors["forecast"]:
        out.append(
            f"  forecast for {f['author']}: at most {f['calls']} calls without repairs, {money(f['usd']) if f['priced'] else 'price unknown'}"
        )
    for s in authors["sources"]:
        price = f", {money(s['usd'])}" if s["author"] not in _OWN else ""
        out.append(
            f"  {s['author']}: {s['judged']} candidates brought the costs down {s['gain']:.2f}x in all, {s['seconds']:.0f} s of the search{price}"
        )
    return out + [f"  {line}" for line in [*yields(authors), *stops(authors)]]


def yields(authors: dict[str, Any]) -> list[str]:
    """Return how many candidates of each author were right, on each operator."""
    return [
        f"{y['author']} on {y['op'].removeprefix('aten::')}: {y['valid']} of {y['judged']} right before repair, {y['valid'] + y['mended']} after, {y['unfinished']} unfinished (not disproved)"
        for y in authors["yields"]
    ]


def stops(authors: dict[str, Any]) -> list[str]:
    """Return who is asked no more, where and why."""
    return [
        f"{s['author']} stopped{' on ' + s['op'].removeprefix('aten::') if s['op'] else ''}: {s['why']}"
        for s in authors["stopped"]
    ]


def teller(bar: Progress) -> Callable[[dict[str, Any]], None]:
    """Return what tells a forecast of authors, before the first call, and whoever is asked no more, when the core has it as an event."""

    def tell(event: dict[str, Any]) -> None:
        data, told = event["data"], []
        if event["kind"] == "forecast":
            told = [
                f"forecast for {f['author']}, at most without repairs: {f['text']}"
                for f in data.get("authors") or []
            ]
        elif event["kind"] == "author":
            told = [f"author {data['author']} stopped: {data['why']}"]
        for line in told:
            log.info("%s", line)
            bar.say(line)

    return tell


def money(usd: float) -> str:
    """Return an amount for people.

    Example:
        >>> money(0.0123), money(4.5)
        ('0.0123 USD', '4.50 USD')
    """
    return f"{usd:.4f} USD" if 0 < usd < 0.1 else f"{usd:.2f} USD"
