"""An OpenAI-compatible endpoint on loopback that answers every chat at once with another program."""

import argparse
import asyncio
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from programs import make_program


class Stub:
    """Counts what it was asked."""

    def __init__(self) -> None:
        self.served = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length:\s*(\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(length.group(1)) if length else 0)
                writer.write(self._response(len(body)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _response(self, asked_bytes: int) -> bytes:
        self.served += 1
        text = f"```python\n# EVOLVE-BLOCK-START\n{make_program(self.served, 'python')}# EVOLVE-BLOCK-END\n```\n"
        usage = {"prompt_tokens": asked_bytes // 4, "completion_tokens": len(text) // 4, "total_tokens": 1}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        reply = {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "stub",
            "choices": [choice],
            "usage": usage,
        }
        body = json.dumps(reply).encode()
        return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


async def main(port_file: Path) -> None:
    server = await asyncio.start_server(Stub().serve, "127.0.0.1", 0)
    port_file.write_text(str(server.sockets[0].getsockname()[1]))
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port_file", type=Path)
    asyncio.run(main(parser.parse_args().port_file))
