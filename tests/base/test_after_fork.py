"""A Mutex in a forked child."""

from support.commands import Script


def test_a_mutex_held_by_another_thread_is_free_in_a_forked_child(run_script: Script) -> None:
    code = """
import threading
from memfs.after_fork import Mutex

mutex, inside, leave = Mutex(), threading.Event(), threading.Event()

def hold():
    with mutex, mutex:
        inside.set()
        leave.wait()

thread = threading.Thread(target=hold)
thread.start()
inside.wait()
child = os.fork()
if not child:
    with mutex, mutex:
        os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), mutex.acquire(blocking=False))
leave.set()
thread.join()
"""
    assert run_script(code, timeout=20).stdout == "0 False\n"


def test_a_mutex_held_by_the_forking_thread_stays_held_in_the_child(run_script: Script) -> None:
    code = """
from memfs.after_fork import Mutex

mutex = Mutex()
with mutex:
    child = os.fork()
if not child:
    os._exit(0 if mutex.acquire(blocking=False) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run_script(code, timeout=20).stdout == "0\n"
