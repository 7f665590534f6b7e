"""One service over many processes and machines: shards of the state as Ray actors, and a front that clients speak to.

Only `actors` imports Ray, and only when it is used: whoever does not serve with ``--engine ray`` needs none.
"""
