"""llama.cpp's own server, kept to be compared with. `python -m bench.llama_server GGUF PORT`, where xllamacpp is."""

import sys
import threading
from typing import Any

SLOTS = 16
SLOT_TOKENS = 1024


def main() -> None:
    """Serve until ended."""
    import xllamacpp  # noqa: PLC0415  # type: ignore[import-not-found]

    given: Any = xllamacpp.CommonParams()
    given.model.path, given.port, given.hostnames = sys.argv[1], int(sys.argv[2]), ["127.0.0.1"]
    given.n_parallel, given.n_ctx, given.use_jinja = SLOTS, SLOTS * SLOT_TOKENS, True
    server = xllamacpp.Server(given)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
