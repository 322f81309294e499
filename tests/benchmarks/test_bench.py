"""The measurements run, on a small tree. Figures are printed, none is judged."""

from __future__ import annotations

import pytest

from benchmarks import bench_questions
from benchmarks.bench_main import main


@pytest.mark.bench
@pytest.mark.timeout(900)
def test_the_measurements_run_on_a_thousand_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--files", "1000", "--idle", "5"]) == 0
    with capsys.disabled():
        print(capsys.readouterr().out)


@pytest.mark.bench
@pytest.mark.timeout(300)
def test_the_questions_are_measured_on_a_small_history(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_questions.main([]) == 0
    with capsys.disabled():
        print(capsys.readouterr().out)
