"""What a user sees: the terminal's bytes, drawn by a terminal emulator (pyte) of any size."""

import contextlib
import fcntl
import json
import os
import struct
import subprocess
import termios

import pyte
import pytest

STATUS = [
    ("state", "running"),
    ("workers", 4, 4),
    ("progress", "epoch 3", 176, 391, 5.12),
    ("metrics", {"loss": 0.31256, "accuracy": 0.98}),
    ("checkpoint", "checkpoint_000042"),
]


class Screen:
    """A driver's terminal of `columns`, and what it shows."""

    def __init__(self, columns, rows=12, variables=(), arguments=()):
        self._leader, follower = os.openpty()
        self.raw = ""
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.resize(columns, rows)
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **dict(variables)}
        self._process = subprocess.Popen(
            [os.environ["TERMINAL_PROGRAM"], *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=follower, env=environment, text=True,
        )
        os.close(follower)
        os.set_blocking(self._leader, False)

    def resize(self, columns, rows=12):
        fcntl.ioctl(self._leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def do(self, *commands):
        for command in commands:
            print(json.dumps(command), file=self._process.stdin, flush=True)
            assert self._process.stdout.readline() == "done\n"
            with contextlib.suppress(BlockingIOError):
                while drawn := os.read(self._leader, 1 << 16):
                    self.raw += drawn.decode()
                    self.stream.feed(drawn)
        return self

    @property
    def lines(self):
        """Without the empty ones at the end."""
        text = "\n".join(line.rstrip() for line in self.screen.display)
        return text.rstrip("\n").split("\n")

    def close(self):
        self._process.stdin.close()
        assert self._process.wait(timeout=60) == 0
        os.close(self._leader)


@pytest.fixture
def terminal():
    with contextlib.ExitStack() as open_screens:
        yield lambda *arguments, **options: open_screens.enter_context(contextlib.closing(Screen(*arguments, **options)))


def test_one_line_with_everything_stays_below_the_log(terminal):
    screen = terminal(160).do(("state", "scheduling"), ("workers", 1, 4))
    assert screen.lines == ["scheduling · 1/4 workers"]
    screen.do(*STATUS, ("log", "INFO", "two nodes"), ("output", "rank 1", "hello"), ("log", "WARNING", "slow"))
    assert screen.lines == [
        "two nodes",
        "(rank 1) hello",
        "warning: slow",
        "running · 4 workers · epoch 3 ━━━━━━━───────── 176/391 5.1/s 0:42 left · accuracy 0.98, loss 0.3126 · checkpoint_000042",
    ]


def test_slow_ranks_are_named_while_they_are(terminal):
    screen = terminal(160).do(*STATUS[:2], ("stragglers", "slow: rank 3 (2.1x)"), STATUS[4])
    assert screen.lines == ["running · 4 workers · slow: rank 3 (2.1x) · checkpoint_000042"]
    assert screen.do(("stragglers", "")).lines == ["running · 4 workers · checkpoint_000042"]


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 10, 20, 40, 80, 119, 120])
def test_the_line_never_wraps(terminal, columns):
    screen = terminal(columns).do(*STATUS, ("metrics", {"größe": 1, "名前": 2, "emoji 🙂": 3, "e\u0301": 4}), ("log", "INFO", ""))
    assert len(screen.lines) == 2
    assert screen.lines[0] == ""
    assert screen.screen.cursor.y == 1


@pytest.mark.parametrize("columns", [200, 60, 9])
def test_a_terminal_that_becomes_smaller_or_larger_shows_one_line(terminal, columns):
    screen = terminal(100).do(*STATUS)
    screen.resize(columns)
    screen.do(("state", "restarting"), ("log", "INFO", "after"))
    assert len(screen.lines) == 2
    assert screen.lines[0] == "after"
    assert screen.lines[1].startswith("resta")


def test_at_the_end_the_line_is_gone_and_the_cursor_at_home(terminal):
    screen = terminal(80).do(*STATUS, ("finish",))
    assert screen.lines == [""]
    assert (screen.screen.cursor.x, screen.screen.cursor.y, screen.screen.cursor.hidden) == (0, 0, False)
    screen.do(("log", "ERROR", "the last word"))
    assert screen.lines == ["error: the last word"]


def test_interrupting_with_ctrl_c_leaves_no_trace(terminal):
    screen = terminal(80).do(*STATUS)
    screen.stream.feed(b"^C")  # as the terminal echoes it
    screen.do(("log", "WARNING", "stopping"), ("finish",))
    assert screen.lines == ["warning: stopping"]


def test_a_workers_output_cannot_move_the_cursor(terminal):
    screen = terminal(80).do(*STATUS[:1])
    screen.do(("output", "rank 0", "\x1b[2J\x1b[H\x1b]0;title\x07up\x1b[5A \x1b[31mred\x1b[K\b\x07\ttab"), ("bar", "rank 0", "\x1b[A10 %"))
    assert screen.lines == ["(rank 0) up red tab", "10 %", "running"]
    assert "\x1b[31mred" in screen.raw, "colours stay"
    assert screen.screen.buffer[0][0].fg == "cyan" and screen.screen.buffer[2][0].fg == "green"


def test_a_bar_of_a_worker_stays_live_below_other_lines(terminal):
    screen = terminal(80).do(*STATUS[:3], ("bar", "rank 0", "train:  10%|#         | 1/10"))
    assert screen.lines == ["train:  10%|#         | 1/10", "running · 4 workers"]
    screen.do(("output", "rank 1", "hello"), ("log", "WARNING", "slow"), ("bar", "rank 0", "train:  20%|##        | 2/10"))
    assert screen.lines == ["(rank 1) hello", "warning: slow", "train:  20%|##        | 2/10", "running · 4 workers"]
    screen.do(("output", "rank 0", "train: 100%|##########| 10/10"), ("bar", "rank 0", ""))
    assert screen.lines[2:] == ["(rank 0) train: 100%|##########| 10/10", "running · 4 workers · epoch 3 ━━━━━━━───────── 176/391 5.1/s 0:42 left"]


@pytest.mark.parametrize("columns", [80, 20, 3])
@pytest.mark.parametrize("rows", [12, 5, 3, 2])
def test_bars_within_bars_are_rows_that_move_nothing_else(terminal, columns, rows):
    screen = terminal(columns, rows).do(*STATUS[:3], ("log", "INFO", "a"))
    for step in range(1, 40):
        inner = f"\ninner {step % 4}/3 {'#' * 80}" if step % 4 else ""
        screen.do(("bar", "rank 0", f"outer {step // 4}/9{inner}"), ("log", "INFO", str(step)))
    bars = ["outer 9/9"[: columns - 1], "inner 3/3"[: columns - 1]][: rows - 2]
    assert len(screen.lines) == rows, "the screen is full"
    assert screen.lines[-1][:2] == "ru"[: max(1, columns - 3)] or columns == 3
    assert [shown[: len(bar)] for shown, bar in zip(screen.lines[-1 - len(bars):], bars)] == bars
    assert screen.lines[: rows - 1 - len(bars)] == [str(step) for step in range(40 - (rows - 1 - len(bars)), 40)]
    screen.do(("bar", "rank 0", ""), ("finish",))
    assert screen.lines[-1] == "39"


def test_a_bar_as_wide_as_the_terminal_is_not_cut(terminal):
    bar = "train: " + "#" * 73
    screen = terminal(80).do(*STATUS, ("bar", "rank 0", bar), ("log", "INFO", "line"))
    assert screen.lines[:2] == ["line", bar] and len(screen.lines) == 3


def test_without_utf8_and_colour(terminal):
    screen = terminal(160, variables={"LC_ALL": "C", "NO_COLOR": "1"}.items()).do(*STATUS, ("metrics", {"größe": 1}))
    assert screen.lines == ["running | 4 workers | epoch 3 #######--------- 176/391 5.1/s 0:42 left | gr??e 1 | checkpoint_000042"]
    assert screen.raw.isascii() and "\x1b[1;32m" not in screen.raw


def test_a_dumb_terminal_gets_plain_lines(terminal):
    screen = terminal(80, variables={"TERM": "dumb"}.items()).do(*STATUS[:2], ("log", "INFO", "line"))
    assert screen.lines == ["line"]
    assert "\x1b" not in screen.raw


def test_quiet_shows_workers_output_warnings_and_errors_alone(terminal):
    screen = terminal(80, arguments=["quiet"]).do(*STATUS, ("output", "rank 0", "\x1b[2Jhello"), ("log", "INFO", "no"), ("log", "ERROR", "yes"), ("finish",))
    assert screen.lines == ["(rank 0) hello", "error: yes"]
