"""holder.py PLACE takes a lease and gives it back, as lines on stdin say: `acquire` or `release`. It says the fencing
token, `busy`, `free`, or what has failed. A place is a URL, a directory that this process writes itself, or
s3fs:BUCKET/PREFIX, which it writes itself by s3fs.
"""

import os
import sys

import mopslock

place = sys.argv[1]
if place.startswith("s3fs:"):
    server = {"endpoint_url": os.environ["ENDPOINT"], "region_name": "us-east-1"}
    store = mopslock.stores.Fsspec.of_url("s3://" + place.removeprefix("s3fs:"), client_kwargs=server)
elif place.startswith("/"):
    store = mopslock.stores.Directory(place)
else:
    store = place

lease = None
for line in sys.stdin:
    try:
        if line == "acquire\n":
            lease = mopslock.try_acquire(store, "n", protocol="strict", ttl=60)
            print("busy" if lease is None else lease.fencing_token, flush=True)
        else:
            lease.release()
            print("free", flush=True)
    except Exception as error:
        print(repr(error), flush=True)
