"""A server that lists every file it opens after its first answers: `audited.py STORE...`; it ends with its input."""

import sys
import threading
from pathlib import Path

from evokernel.serve.server import Server
from evokernel.serve.site import ServedStores
from tests.support.serving import ask, wait_until

TOUCHES = (
    "open",
    "sqlite3.connect",
    "os.",
    "shutil.",
    "subprocess.",
    "pathlib.",
    "glob.",
    "tempfile.",
    "exec",
    "import",
)


def main(paths: list[Path]) -> None:
    touched: list[str] = []
    listing = threading.Event()

    def heard(event: str, arguments: tuple[object, ...]) -> None:
        if listing.is_set() and event.startswith(TOUCHES):
            touched.append(f"{event} {arguments}")

    sys.addaudithook(heard)
    with ServedStores(paths) as site, Server(site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        wait_until(lambda: all(feed.page for feed in site.feeds))
        for target in ("/", "/0", "/0/document", "/nothing"):
            ask(server, target)
        listing.set()
        print(server.port, flush=True)
        sys.stdin.read()
        Path(__file__).read_bytes()  # so that a list that misses files is no pass
        listing.clear()
        server.shutdown()
    print(*touched, sep="\n")


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]])
