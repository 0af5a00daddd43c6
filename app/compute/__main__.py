"""A template: ``python -m app.compute FD``. Started by `app.compute.child_template` only."""

import sys

from app.compute.child_template import wait_for_orders

if __name__ == "__main__":
    wait_for_orders(int(sys.argv[1]))
