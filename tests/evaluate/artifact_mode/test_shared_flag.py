"""The page that judge and runner share, and what each says of its own interruptions."""

import os
import subprocess
import sys
import threading
import time

from evokernel.evaluate.inside.process.shared_flag import SharedFlags, interruptions

PATIENCE_S = 300.0


def test_what_one_side_says_the_other_reads():
    descriptor = SharedFlags.make()
    mine, theirs = SharedFlags(descriptor), SharedFlags(descriptor)
    os.close(descriptor)
    theirs.finish(3, device_ns=1.5e3, interruptions=2)
    assert (mine.done, mine.device_ns, mine.interruptions) == (3, 1.5e3, 2)
    theirs.finish(4, device_ns=2e3, interruptions=0)
    assert (mine.done, mine.interruptions) == (4, 0)
    mine.close()
    theirs.close()


def test_a_thread_that_shares_its_core_knows_that_it_was_interrupted():
    core = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, [{core}]); print(flush=True)\nwhile True: pass"
    found = []

    def work():
        os.sched_setaffinity(0, [core])  # of this thread alone
        before, deadline = interruptions(), time.monotonic() + PATIENCE_S
        while interruptions() == before and time.monotonic() < deadline:
            pass
        found.append(interruptions() - before)

    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        other.kill()
    assert found[0] >= 1


def test_waiting_is_no_interruption():
    found = []

    def wait():
        before = interruptions()
        for _ in range(5):
            time.sleep(0.001)
        found.append(interruptions() - before)

    while 0 not in found and len(found) < 200:  # a busy machine interrupts even this short work now and then
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
    assert 0 in found
