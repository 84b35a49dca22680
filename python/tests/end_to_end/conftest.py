"""These tests need a server and an agent, which test/integration/server/python-client.slow.test.ts starts."""

import os

collect_ignore_glob = [] if "PLAIN_SERVER" in os.environ else ["test_*.py"]
