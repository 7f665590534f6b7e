"""Each alert rule fires on the trouble that it is for, and none on a healthy service: `promtool test rules`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

RULES = Path(__file__).parents[2] / "docs" / "operations" / "alerts.yml"
PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="NO PROMTOOL HERE: the Debian package `prometheus` has it")

HOURS = "x600"  # minutes of samples
HERE = 'instance="a:9117"'
# What a service tells that is well; an alert's own trouble takes the place of a series.
WELL = {
    f'up{{job="advisor",{HERE}}}': f"1+0{HOURS}",
    f"advisor_storage_healthy{{{HERE}}}": f"1+0{HOURS}",
    f"advisor_commit_age_seconds{{{HERE}}}": f"0.01+0{HOURS}",
    f"advisor_components{{{HERE}}}": f"500+0{HOURS}",
    f"advisor_components_max{{{HERE}}}": f"100000+0{HOURS}",
    f"advisor_producers{{{HERE}}}": f"10+0{HOURS}",
    f"advisor_producers_max{{{HERE}}}": f"1000+0{HOURS}",
    f"advisor_promotions_refused_total{{{HERE}}}": f"0+0{HOURS}",
    f'advisor_rows_refused_total{{reason="invalid_cores",{HERE}}}': f"0+1{HOURS}",
    f"advisor_rows_accepted_total{{{HERE}}}": f"0+1000{HOURS}",
    f"advisor_scores_total{{{HERE}}}": f"0+100{HOURS}",
    f"advisor_score_error_total{{{HERE}}}": f"0+10{HOURS}",
    f"advisor_scores_covered_total{{{HERE}}}": f"0+90{HOURS}",
    f'advisor_request_seconds_bucket{{verb="predict",le="0.001",{HERE}}}': f"0+100{HOURS}",
    f'advisor_request_seconds_bucket{{verb="predict",le="1",{HERE}}}': f"0+100{HOURS}",
    f'advisor_request_seconds_bucket{{verb="predict",le="+Inf",{HERE}}}': f"0+100{HOURS}",
    f'process_open_fds{{job="advisor",{HERE}}}': f"50+0{HOURS}",
    f'process_max_fds{{job="advisor",{HERE}}}': f"1024+0{HOURS}",
    f"advisor_wrong_tokens_total{{{HERE}}}": f"0+0{HOURS}",
    f"advisor_log_lines_dropped_total{{{HERE}}}": f"0+0{HOURS}",
}
TROUBLE = {
    "AdvisorDown": {f'up{{job="advisor",{HERE}}}': f"0+0{HOURS}"},
    "AdvisorStorageFails": {f"advisor_storage_healthy{{{HERE}}}": f"0+0{HOURS}"},
    "AdvisorCommitsLate": {f"advisor_commit_age_seconds{{{HERE}}}": f"1+1{HOURS}"},
    "AdvisorNearlyFull": {f"advisor_producers{{{HERE}}}": f"950+0{HOURS}"},
    "AdvisorLearnersFull": {f"advisor_promotions_refused_total{{{HERE}}}": f"0+1{HOURS}"},
    "AdvisorRowsRefused": {f'advisor_rows_refused_total{{reason="invalid_cores",{HERE}}}': f"0+100{HOURS}"},
    "AdvisorPredictionsPoor": {f"advisor_score_error_total{{{HERE}}}": f"0+50{HOURS}"},
    "AdvisorIntervalsOff": {f"advisor_scores_covered_total{{{HERE}}}": f"0+50{HOURS}"},
    "AdvisorSlow": {f'advisor_request_seconds_bucket{{verb="predict",le="0.001",{HERE}}}': f"0+90{HOURS}"},
    "AdvisorNearlyOutOfDescriptors": {f'process_open_fds{{job="advisor",{HERE}}}': f"1000+0{HOURS}"},
    "AdvisorTokensGuessed": {f"advisor_wrong_tokens_total{{{HERE}}}": f"0+5{HOURS}"},
    "AdvisorLogUnread": {f"advisor_log_lines_dropped_total{{{HERE}}}": f"0+1{HOURS}"},
}


def case(firing: str | None) -> dict[str, Any]:
    """Return what `promtool` is to try: with a trouble its alert fires, and no other; without one none does."""
    series = WELL | (TROUBLE[firing] if firing else {})
    samples = [{"labels": f'{{alertname="{firing}"}}', "value": 1}] if firing else []
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": "8h", "exp_samples": samples}
        ],
    }


def test_every_rule_has_its_trouble() -> None:
    assert set(re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8"))) == set(TROUBLE)


def test_each_alert_fires_on_its_trouble_and_none_without(tmp_path: Path) -> None:
    cases = tmp_path / "cases.yml"
    tests = [case(firing) for firing in (None, *TROUBLE)]
    cases.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "5m", "tests": tests}))
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "test", "rules", str(cases)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
