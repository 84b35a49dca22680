"""Runs each case of MQTT's interoperability suite alone, and writes one line of JSON for each. Its own main program
takes its options from the arguments that unittest reads too, so host and port are set here."""

import contextlib
import io
import json
import sys
import unittest

suite, port, cases = sys.argv[1:]
sys.path.insert(0, suite)
import client_test  # noqa: E402

client_test.host = "127.0.0.1"
client_test.port = int(port)
client_test.topics = ("TopicA", "TopicA/B", "Topic/C", "TopicA/C", "/TopicA")
client_test.wildtopics = ("TopicA/+", "+/C", "#", "/#", "/+", "+/+", "TopicA/#")
client_test.nosubscribe_topics = ("test/nosubscribe",)


def names():
    # One case is named as unittest does not find it.
    return [name for name in dir(client_test.Test) if name.startswith("test") or name.endswith("_test")]


with open(cases, "w") as file:
    for name in names():
        text = io.StringIO()
        result = unittest.TestResult()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            unittest.TestSuite([client_test.Test(name)]).run(result)
        passed = result.wasSuccessful() and result.testsRun == 1
        why = "" if passed else (text.getvalue() + "".join(trace for _, trace in result.failures + result.errors))[-2000:]
        file.write(json.dumps({"case": name, "outcome": "passed" if passed else "failed", "why": why}) + "\n")
        file.flush()
