"""Pauses of the garbage collector."""

import gc

import pytest
from support.commands import Script

from memfs.fs.gc_pause import gc_paused


def test_an_exception_ends_a_pause_of_the_garbage_collector() -> None:
    with pytest.raises(ValueError, match="invalid literal"), gc_paused():
        int("no")

    assert gc.isenabled()


FORKED = """
import gc, threading
from memfs.fs.gc_pause import gc_paused

inside, leave = threading.Event(), threading.Event()

def pause():
    with gc_paused():
        inside.set()
        leave.wait()

thread = threading.Thread(target=pause)
thread.start()
inside.wait()
paused_here = not gc.isenabled()
child = os.fork()
if not child:
    os._exit(0 if gc.isenabled() else 1)
is_running = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
leave.set()
thread.join()
print(paused_here, is_running, gc.isenabled())
"""


def test_the_garbage_collector_runs_in_a_child_forked_during_a_pause(run_script: Script) -> None:
    assert run_script(FORKED).stdout == "True True True\n"
