import os

KEY = os.environ["MAIL_KEY"]
TRACE = "cg_eygsno0frnzrvcma0dy5ibp1hahmmv"  # a digest, no key
