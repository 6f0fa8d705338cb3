"""Runs a notebook from its first cell to its last one and prints what it says; fails where a cell does.

    pip install nbclient nbformat ipykernel matplotlib
    KVASIR_MODEL=model.gguf python examples/run_notebook.py examples/cache_presets.ipynb [OUTPUT.ipynb]

OUTPUT is the notebook with its results; the notebook itself stays as it is.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def main(path, output=None):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=3600, kernel_name="python3", resources={"metadata": {"path": str(Path(path).parent)}}).execute()
    pictures = 0
    for cell in notebook.cells:
        for out in cell.get("outputs", []):
            if out.output_type == "stream":
                print(out.text, end="")
            pictures += "image/png" in out.get("data", {})
    print(f"{len(notebook.cells)} cells, {pictures} picture{'s' if pictures != 1 else ''}")
    if output:
        nbformat.write(notebook, output)


if __name__ == "__main__":
    main(*sys.argv[1:])
