"""Each shipped alert of a governor fires on what it is about and is silent else, in Prometheus' own test of rules."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

RULES = Path(__file__).parents[2] / "examples" / "govern" / "alerts.yml"
PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="no promtool here: apt-get install prometheus")

WELL = {
    "look_timestamp_seconds": "0+60x30",
    "governors": "3x30",
    "heartbeat_gap_seconds": "5.2x30",
    "pass_seconds": "0.8x30",
    'groups{outcome="unchanged"}': "40x30",
    'groups{outcome="refused"}': "0x30",
    'groups{outcome="failed"}': "0x30",
    'groups{outcome="not ours"}': "0x30",
    'outcomes_total{outcome="published"}': "0+5x30",
}
ILL = {
    "GovernorNotLooking": {"look_timestamp_seconds": "0x30"},
    "GovernorsGone": {"governors": "_x30"},
    "GovernorHeartbeatsLate": {"heartbeat_gap_seconds": "16x30"},
    "GovernorPassesSlow": {"pass_seconds": "31x30"},
    "PlanNotFollowed": {'groups{outcome="refused"}': "1x30"},
    "GroupsNotGoverned": {'groups{outcome="failed"}': "1x30"},
    "PlansFlap": {'outcomes_total{outcome="published"}': "0+90x30"},
}


def fired(series: dict[str, str], folder: Path) -> dict[str, str]:
    """Alert to what promtool says of it: it is asked whether each is silent, and names those that are not."""
    inputs = [{"series": f"apportion_governor_{name}", "values": values} for name, values in series.items()]
    asked = [{"eval_time": "25m", "alertname": alert, "exp_alerts": []} for alert in ILL]
    test = {"interval": "1m", "input_series": inputs, "alert_rule_test": asked}
    file = folder / "test.yml"  # JSON is YAML
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run([str(PROMTOOL), "test", "rules", str(file)], capture_output=True, text=True, check=False)
    parts = (done.stdout + done.stderr).split("alertname: ")[1:]
    return {part.partition(",")[0]: part for part in parts}


def test_a_governor_that_is_well_fires_nothing(tmp_path: Path) -> None:
    assert not fired(WELL, tmp_path)


@pytest.mark.parametrize("alert", ILL)
def test_an_alert_fires_on_what_it_is_about_alone(alert: str, tmp_path: Path) -> None:
    assert set(fired(WELL | ILL[alert], tmp_path)) == {alert}


def test_each_shipped_alert_is_tried() -> None:
    assert [line.split()[-1] for line in RULES.read_text().splitlines() if "- alert:" in line] == list(ILL)
