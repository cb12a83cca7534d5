"""Execute the notebooks on a store and save them with their outputs: python notebooks/execute.py STORE [FOLDER]."""

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
LONGEST_S = 1200


def execute(notebook: Path, *, store: Path, out: Path) -> None:
    """Run a notebook from its folder in a kernel of its own, and write it to `out` with its outputs."""
    os.environ["EVOKERNEL_STORE"] = os.path.relpath(store.resolve(), HERE)
    document = nbformat.read(notebook, as_version=4)
    client = NotebookClient(
        document,
        timeout=LONGEST_S,
        kernel_name="python3",
        extra_arguments=["--IPKernelApp.log_level=ERROR"],  # it warns of any port, also of one on loopback
        resources={"metadata": {"path": str(HERE)}},
        record_timing=False,  # so that nothing changes but what is seen
    )
    client.execute()
    document.metadata = {"kernelspec": document.metadata["kernelspec"]}
    nbformat.write(document, out)


def main(store: str, folder: str = str(HERE)) -> None:
    """Execute every notebook beside this file."""
    for notebook in sorted(HERE.glob("*.ipynb")):
        out = Path(folder) / notebook.name
        execute(notebook, store=Path(store), out=out)
        print(f"{out}: {out.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main(*sys.argv[1:])
