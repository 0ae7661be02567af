"""`kernelforge mcp` and the official Python client of the protocol (package `mcp`), over stdio and over HTTP: other people's code, as agents bring it."""

import asyncio
import os
import re
import signal
import sys

import pytest

from kernelforge import _study
from small_net import PACKAGE
from test_agents import SPEC, WRONG, _serving, here, study, threads  # noqa: F401 (fixtures)

mcp = pytest.importorskip("mcp", reason="the package `mcp` is not installed (make build installs it)")
import httpx2  # noqa: E402
from mcp.client.stdio import stdio_client  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402

TOOLS = {"list_cards", "get_brief", "get_node", "submit_candidate", "get_verdict", "get_tree"}


async def _tour(session):
    """Take the steps of an agent before its first kernel: what there is, and what a kernel for it must do."""
    hello = await session.initialize()
    assert hello.server_info.name == "kernelforge"
    tools = (await session.list_tools()).tools
    assert {t.name for t in tools} == TOOLS
    assert all(t.description and t.input_schema["type"] == "object" for t in tools)
    cards = await session.call_tool("list_cards", {})
    assert [c["overload"] for c in cards.structured_content["cards"]] == ["aten::addmm"]
    brief = await session.call_tool("get_brief", {"card": "addmm"})
    assert brief.content[0].text.startswith("# aten::addmm")
    assert brief.structured_content["launch"]["slots"] == ["self", "mat1", "mat2", "out0"]
    slip = await session.call_tool("get_node", {"card": "addmm", "node": 99})
    assert slip.is_error and "no such node" in slip.content[0].text


def test_the_official_client_drives_a_study_over_stdio(here):  # noqa: F811
    source = WRONG + "// official\n"

    async def drive():
        env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "OMP_NUM_THREADS": "1"}
        command = ["-m", "kernelforge", "mcp", "lin", *here]
        with open(os.devnull, "w") as errors:
            server = mcp.StdioServerParameters(command=sys.executable, args=command, env=env, cwd=os.getcwd())
            async with stdio_client(server, errlog=errors) as streams, mcp.ClientSession(*streams) as session:
                await _tour(session)
                given = {"card": "addmm", "source": source, "spec": SPEC, "idea": "a slip", "wait_s": 300}
                answer = (await session.call_tool("submit_candidate", given)).structured_content
                assert answer["verdict"]["status"] == "wrong_value"
                assert "expected" not in answer["verdict"]["detail"]  # it may leave the machine
                asked = {"card": "addmm", "candidate": answer["candidate"]}
                assert (await session.call_tool("get_verdict", asked)).structured_content == answer
                tree = (await session.call_tool("get_tree", {"card": "addmm"})).structured_content
                assert "agent" in {n["author"] for n in tree["nodes"]}
                return answer

    answer = asyncio.run(drive())
    kept = _study.answer_of("lin", here[1], answer["card"], answer["candidate"])
    assert kept["node"] == answer["node"]


def test_the_official_client_speaks_http_with_the_token_and_is_refused_without(here):  # noqa: F811
    async def tour(url, token):
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as client,
            streamable_http_client(url, http_client=client) as streams,
            mcp.ClientSession(*streams) as session,
        ):
            await _tour(session)

    with _serving(here, "--http", "127.0.0.1:0") as process:
        told = process.stderr.readline() + process.stderr.readline()
        found = re.search(r"at (http://127\.0\.0\.1:\d+/mcp)\ntoken: (\S+)\n", told)
        assert found, told
        asyncio.run(tour(found[1], found[2]))
        with pytest.raises(BaseExceptionGroup):
            asyncio.run(tour(found[1], "another"))
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
