"""The lab: an essay, lessons and cards about attention as one site, and a server that shows it on this machine.

site/       the built pages; absent in a checkout until `make site`
serve.py    the server · safety.py: who may ask it, and what every answer says · files.py: the pages · api.py: maps
export.py   the same site as files for any web server
maps.py     maps of trained heads, computed or recorded
"""

from pathlib import Path

__version__ = "0.1.0"

SITE = Path(__file__).with_name("site")
