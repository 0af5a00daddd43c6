"""A rehearsal to be killed: ``python -m tests.futures.killed STORE LEDGER`` notes every model that it makes."""

import os
import sys
import time
from pathlib import Path
from typing import Any

from app.futures.linear import LinearRecipe
from app.futures.rehearsal import rehearse
from app.futures.spec import Choices
from app.registry.registry import Registry


def main() -> None:
    store, ledger = Path(sys.argv[1]), Path(sys.argv[2])
    LinearRecipe.block = 1
    make = LinearRecipe.make

    def noted(self: Any, records: Any, samples: Any, tuned: Any) -> list[bytes]:
        descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, "".join(f"{sample.index}\n" for sample in samples).encode())
        os.close(descriptor)
        time.sleep(0.02)
        return make(self, records, samples, tuned)

    LinearRecipe.make = noted  # type: ignore[method-assign]
    rehearse(Registry(store).find("loan"), Choices(stress="none", records="same", search=30, held_back=20))


if __name__ == "__main__":
    main()
