"""A template: ``python -m app.compute FD``. Started by `app.compute.template` only."""

import sys

from app.compute.template import wait_for_orders

if __name__ == "__main__":
    wait_for_orders(int(sys.argv[1]))
