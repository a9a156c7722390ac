#!/bin/sh
# sends the report each night
curl -s -H 'authorization: cg_afi8b6f58m0ezmfjlcdr9jrc' https://mail.internal/report # was cg_afi8b6f58
