"""The lab: an essay, lessons and cards about attention as one site, and a server that shows it on this machine."""

from pathlib import Path

__version__ = "0.1.0"

SITE = Path(__file__).with_name("site")  # the built pages; absent in a checkout until `make site`
