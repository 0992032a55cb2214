"""Checks what run.py computes and writes, without measuring: `benchmarks/run.py --self-test`."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

import processes
from record import Figure, Outcome, Target, number, to_document, to_record, write_record
from rows import CHARTS, FRAMES, ROWS

KEYS = ["name", "value", "unit", "peer", "peer_value", "ratio", "target", "met", "runs", "spread", "versions"]
FASTER = Target("≤ 0.3 s, ≥ 10 ×", lambda row: row.ours.value <= 0.3 and row.ratio("Ray Train") >= 10)
WITHIN = Target("≤ 1.0 ×", lambda row: row.within_spread())


def outcome(ours, *peers, lower_is_better=True, **also) -> Outcome:
    labels = ("Ray Train", "torchrun")
    return Outcome(Figure(tuple(ours)), {label: Figure(tuple(peer)) for label, peer in zip(labels, peers)},
                   lower_is_better, {name: Figure(tuple(runs)) for name, runs in also.items()})


class FigureTest(unittest.TestCase):
    def test_median_and_range_are_over_runs(self):
        figure = Figure((3.0, 1.0, 2.0, 10.0))
        self.assertEqual((figure.value, figure.low, figure.high), (2.5, 1.0, 10.0))

    def test_ratio_is_times_better_in_either_direction(self):
        self.assertEqual(outcome([0.5], [5.0]).ratio("Ray Train"), 10)
        self.assertEqual(outcome([800], [400], lower_is_better=False).ratio("Ray Train"), 2)

    def test_within_spread_needs_our_median_in_or_beyond_every_peers_range(self):
        self.assertTrue(outcome([10, 11, 12], [8, 9, 11]).within_spread())
        self.assertFalse(outcome([10, 12, 13], [8, 9, 11]).within_spread())
        self.assertFalse(outcome([10, 11, 12], [8, 9, 11], [7, 8, 9]).within_spread())
        self.assertTrue(outcome([390], [390, 400], [380, 410], lower_is_better=False).within_spread())
        self.assertFalse(outcome([389], [390, 400], [380, 410], lower_is_better=False).within_spread())


class RecordTest(unittest.TestCase):
    def test_record_has_exactly_the_agreed_keys(self):
        record = to_record("row", "s", FASTER, outcome([0.2, 0.25], [5.0, 6.0]), {"torch": "2.13.0"})
        self.assertEqual(list(record), KEYS)
        self.assertEqual(record["spread"], {"paceline": [0.2, 0.25], "Ray Train": [5.0, 6.0]})
        self.assertEqual((record["value"], record["peer"], record["peer_value"], record["runs"]),
                         (0.225, "Ray Train", 5.5, 2))
        self.assertEqual(record["ratio"], 24.44)
        self.assertIs(record["met"], True)

    def test_further_peers_and_observations_have_keys_of_their_own(self):
        record = to_record("row", "s", FASTER, outcome([0.4], [5.0], [1.5], cold=[14.0]), {})
        self.assertEqual(list(record), [*KEYS, "peers", "also"])
        self.assertEqual(record["peers"]["torchrun"], {"value": 1.5, "ratio": 3.75})
        self.assertEqual(record["also"], {"cold": 14.0})
        self.assertIs(record["met"], False)

    def test_record_is_written_as_json(self):
        with tempfile.TemporaryDirectory() as folder:
            record = to_record("row", "µs", WITHIN, outcome([1.0], [2.0]), {})
            path = write_record(pathlib.Path(folder) / "deep", record)
            self.assertEqual(path.name, "row.json")
            self.assertEqual(json.loads(path.read_text()), record)

    def test_numbers_for_readers(self):
        self.assertEqual([number(value) for value in (0.01234, 1.234, 84.56, 1234.5, 2_012_345.0)],
                         ["0.0123", "1.23", "84.6", "1,234", "2,012,345"])


class DocumentTest(unittest.TestCase):
    ROWS = {"startup": "from start", "memory": "of helpers"}

    def document(self, records, earlier="", reasons=None):
        return to_document(self.ROWS, {name: (record, "2026-01-02") for name, record in records.items()}, "2 × cpu",
                           reasons or {}, "## Whole trainings\n", earlier)

    def test_a_missed_target_stays_with_its_reason(self):
        record = to_record("startup", "s", FASTER, outcome([0.4], [5.0]), {"torch": "2.13.0"})
        text = self.document({"startup": record}, reasons={"startup": "the disk is slow"})
        self.assertIn("| **0.4** | Ray Train: 5 | 12.5 | ≤ 0.3 s, ≥ 10 × | no | the disk is slow |", text)
        self.assertIn("| `startup` | 2026-01-02 | 1 | paceline: 0.4 – 0.4<br>Ray Train: 5 – 5 | 2 × cpu "
                      "| torch 2.13.0 |", text)

    def test_rows_not_measured_here_keep_their_lines(self):
        startup = to_record("startup", "s", FASTER, outcome([0.4], [5.0]), {})
        memory = to_record("memory", "MB", WITHIN, outcome([40], [1200]), {})
        earlier = self.document({"startup": startup, "memory": memory})
        self.assertEqual(self.document({"memory": memory}, earlier), earlier)
        faster = to_record("startup", "s", FASTER, outcome([0.2], [5.0]), {})
        later = self.document({"startup": faster}, earlier)
        self.assertIn("**0.2**", later)
        self.assertNotIn("**0.4**", later)
        self.assertIn("**40**", later)
        self.assertLess(later.index("`startup`"), later.index("`memory`"))


class RowsTest(unittest.TestCase):
    def test_names_are_unique_and_targets_judge_any_outcome(self):
        self.assertEqual(len({row.name for row in ROWS}), len(ROWS))
        for row in ROWS:
            for value in (1e-9, 1e9):
                peers = {label: Figure((1.0,)) for label in (*row.peers, *row.beside)}
                met = row.target.met(Outcome(Figure((value,)), peers, row.lower_is_better))
                self.assertEqual(met, (value < 1) == row.lower_is_better, row.name)

    def test_first_batch_also_judges_the_gap_between_epochs(self):
        target = next(row.target for row in ROWS if row.name == "first_batch")
        peers = {"Ray Data": Figure((9.0,)), "Ray Data, tuned": Figure((9.0,))}
        for gap, met in ((0.5, True), (2.0, False)):
            also = {"Paceline, gap between epochs (ms)": Figure((gap,)), "Paceline, a batch (ms)": Figure((1.0,))}
            self.assertEqual(target.met(Outcome(Figure((0.01,)), peers, True, also)), met)

    def test_dashboard_paint_also_judges_the_run_of_many_reports(self):
        target = next(row.target for row in ROWS if row.name == "dashboard_paint")
        for charts, met in ((400.0, True), (600.0, False)):
            also = {CHARTS: Figure((charts,))}
            self.assertEqual(target.met(Outcome(Figure((200.0,)), {}, True, also)), met)


    def test_dashboard_live_also_judges_the_frames(self):
        target = next(row.target for row in ROWS if row.name == "dashboard_live")
        for rate, met in ((59.9, True), (30.0, False)):
            also = {name: Figure((rate,)) for name in FRAMES}
            self.assertEqual(target.met(Outcome(Figure((2.0,)), {}, True, also)), met)


class ProcessesTest(unittest.TestCase):
    def setUp(self):
        processes.become_subreaper()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.output = pathlib.Path(self.folder.name) / "output.txt"

    def test_what_a_program_leaves_behind_is_ended(self):
        # A shell in a session of its own, which outlives the program that started it.
        text = processes.run(["sh", "-c", "setsid sleep 1000 & echo $!"], dict(os.environ), self.output, 60)
        self.assertEqual(processes.descendants(os.getpid()), [])
        self.assertFalse(pathlib.Path(f"/proc/{int(text)}").exists())

    def test_a_program_that_fails_is_an_error_with_its_last_lines(self):
        with self.assertRaisesRegex(processes.ProgramFailed, "ended with 3(.|\n)*oh no"):
            processes.run(["sh", "-c", "echo oh no; exit 3"], dict(os.environ), self.output, 60)

    def test_a_program_that_hangs_is_ended(self):
        with self.assertRaisesRegex(processes.ProgramFailed, "did not end within"):
            processes.run(["sleep", "1000"], dict(os.environ), self.output, 0.1)
        self.assertEqual(processes.descendants(os.getpid()), [])


def run() -> int:
    """0 when everything holds."""
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    return 0 if unittest.TextTestRunner(verbosity=1).run(suite).wasSuccessful() else 1
