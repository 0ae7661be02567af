"""Options that several commands share, and the one way in which commands print."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from .._model import DTYPES, SHORT, Made, Wanted, check_device, make
from ..errors import UsageFault

MODEL_HELP = "`file.py:factory`, `package.module:callable`, or the name of a torchvision model; a factory returns (model, inputs)"
_MOST = 10**9  # of anything that is counted
_THREADS_A_CORE = 4


def add_model(p: argparse.ArgumentParser) -> None:
    """Add MODEL and the options that shape it."""
    p.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    add_shape(p)
    p.add_argument("--device", default="cpu", help="cpu (the host target), cuda or cuda:1")
    p.add_argument("--threads", type=threads, help="torch's threads; a pin of the pack")
    p.add_argument("--seed", type=seed, default=0)


def add_shape(p: argparse.ArgumentParser) -> None:
    """Add the options that shape a model, and so name its studies."""
    p.add_argument(
        "--batch",
        type=positive,
        help="batch size, for built-in models and factories with a parameter `batch`",
    )
    p.add_argument(
        "--dtype",
        type=dtype,
        default="float32",
        help=f"{', '.join(DTYPES)}, or short {', '.join(SHORT)}",
    )
    p.add_argument("--channels-last", action="store_true", help="NHWC memory format")


def add_search(p: argparse.ArgumentParser) -> None:
    """Add the options of a search."""
    p.add_argument(
        "--budget-s",
        type=positive_float,
        metavar="S",
        help="seconds after which no candidate is begun; a later call resumes",
    )
    p.add_argument("--candidates", type=positive, help="candidates an operator at most")
    p.add_argument("--study", help="name of the study; default: made from model, shapes, machine")
    add_store(p)


def add_authors(p: argparse.ArgumentParser) -> None:
    """Add the options of authors beside the templates."""
    p.add_argument(
        "--author",
        action="append",
        default=[],
        metavar="KIND:NAME",
        help="who proposes beside the templates (repeatable): openai:MODEL behind any server of chat completions, or replay:STUDY",
    )
    p.add_argument(
        "--base-url", metavar="URL", help="address of the server; default: OPENAI_BASE_URL, then OpenAI's"
    )
    p.add_argument("--api-key-env", metavar="NAME", help="variable that holds the key (OPENAI_API_KEY)")
    p.add_argument("--api-key-file", metavar="FILE", help="or the file that holds it")
    p.add_argument(
        "--max-cost",
        type=amount,
        metavar="USD",
        help="what authors may cost, checked before each call; 0: nobody is called",
    )
    p.add_argument("--max-tokens-in", type=tokens, metavar="N", help="tokens of prompts at most")
    p.add_argument("--max-tokens-out", type=tokens, metavar="N", help="tokens of replies at most")
    p.add_argument("--calls-in-flight", type=positive, metavar="N", help="calls side by side (4)")
    p.add_argument("--price-file", metavar="FILE", help="prices of models, over the shipped table")
    p.add_argument(
        "--author-settings",
        type=settings_file,
        metavar="FILE",
        help="time-outs, rates, temperature and so on (docs/authors.md), as a JSON object",
    )


def authors_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `optimize` that these options are."""
    from .._authors import IN_FLIGHT

    return {
        "authors": args.author,
        "base_url": args.base_url,
        "api_key_env": args.api_key_env,
        "api_key_file": args.api_key_file,
        "max_cost": args.max_cost,
        "max_tokens_in": args.max_tokens_in,
        "max_tokens_out": args.max_tokens_out,
        "calls_in_flight": args.calls_in_flight or IN_FLIGHT,
        "price_file": args.price_file,
        "author_settings": args.author_settings,
    }


def add_store(p: argparse.ArgumentParser) -> None:
    p.add_argument("--store", help="store file or folder; default: see `kernelforge cache`")


def add_trust(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--trust",
        action="append",
        metavar="PUBKEY",
        help="take only packs that this key has signed (repeatable): a file that `kernelforge keygen` wrote, or 64 hexadecimal digits",
    )


def study_of(name: str | None, args: argparse.Namespace) -> str | None:
    """Return the study that is meant: its own name, or the newest one of the model that name and shape options name."""
    from .._studies import studies

    known = studies(getattr(args, "store", None))
    if name is None or any(s["study"] == name for s in known):
        return name
    model = Wanted(name, args.batch, args.dtype, args.channels_last).name
    return next((str(s["study"]) for s in known if s["model"] == model), name)


def wanted(args: argparse.Namespace) -> Wanted:
    """Return the model that the options name."""
    return Wanted(args.model, args.batch, args.dtype, args.channels_last, args.device, args.seed)


def made_from(args: argparse.Namespace) -> Made:
    """Return the model and inputs that the options name, with torch's threads set."""
    check_device(args.device)
    import torch

    if args.threads is not None:
        torch.set_num_threads(args.threads)
    return make(wanted(args))


def dtype(text: str) -> str:
    """Return torch's name of a type given by it or in short: `fp16` is float16."""
    name = SHORT.get(text, text)
    if name not in DTYPES:
        raise argparse.ArgumentTypeError(f"{text} (expected one of {', '.join((*DTYPES, *SHORT))})")
    return name


def positive(text: str) -> int:
    value = int(text)
    if not 1 <= value <= _MOST:
        raise argparse.ArgumentTypeError(f"{text} (expected 1 to {_MOST})")
    return value


def threads(text: str) -> int:
    """Return a number of threads that torch's pool can be given: one too large ends the process in the system's refusal, past any handler."""
    value, cores = positive(text), os.cpu_count() or 1
    if value > _THREADS_A_CORE * cores:
        raise argparse.ArgumentTypeError(
            f"{text} (expected 1 to {_THREADS_A_CORE * cores}, {_THREADS_A_CORE} for each core; more only slows it down)"
        )
    return value


def seed(text: str) -> int:
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise argparse.ArgumentTypeError(f"{text} (expected a number of 64 bits)")
    return value


def positive_float(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} (expected more than 0)")
    return value


def settings_file(path: str) -> dict[str, Any]:
    try:
        value = json.loads(Path(path).expanduser().read_text())
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"read `{path}`: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"read `{path}`: it is no JSON object")
    return value


def amount(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} (expected 0 or more)")
    return value


def tokens(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 10**12:
        raise argparse.ArgumentTypeError(f"{text} (expected 0 to 10^12)")
    return value


def emit(args: argparse.Namespace, data: dict[str, Any], text: str) -> None:
    """Print the result: JSON under --json, else text; what the terminal's encoding does not have is escaped."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(json.dumps(data) if args.json else text.encode(encoding, "backslashreplace").decode(encoding))


def say(text: str) -> None:
    """Narrate on stderr."""
    print(text, file=sys.stderr, flush=True)


def confirm(question: str, yes: bool) -> None:
    """Ask before something is destroyed; without a terminal --yes is needed."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageFault(f"{question} this cannot be asked without a terminal", hint="add --yes")
    if input(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
        raise UsageFault("not done")
