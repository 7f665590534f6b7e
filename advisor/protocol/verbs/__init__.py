"""The verbs of the protocol, each declared once: its keys, what they take, what they mean.

`check_params` types what comes over the wire by them; the clients' signatures and the tables of `docs/protocol.md` are theirs.
"""

from advisor.protocol.declaring import *
from advisor.protocol.verbs.components import *
from advisor.protocol.verbs.keys import *
from advisor.protocol.verbs.networks import *
from advisor.protocol.verbs.programs import *
from advisor.protocol.verbs.rows import *
