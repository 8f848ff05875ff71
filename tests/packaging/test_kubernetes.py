"""Manifests: valid, the same for Kustomize and Helm, and with what the router needs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from headgate.server.config import load_config
from tests.support.packages import program, run
from tools.packages.chart import BASE, CHART, FOLDER, base, render

VERSION = kubernetes_validate.latest_version()
OF_AN_OPERATOR = ("ServiceMonitor", "PrometheusRule")
"""Kinds that Kubernetes itself does not know."""


def manifests(**values: object) -> list[dict[str, Any]]:
    texts = render(CHART, "shop", values).values()
    return [each for text in texts for each in yaml.safe_load_all(text) if each is not None]


def of_kind(kind: str, **values: object) -> dict[str, Any]:
    [found] = [each for each in manifests(**values) if each["kind"] == kind]
    return found


def test_the_base_is_what_the_chart_makes() -> None:
    written = {path.name: path.read_text() for path in BASE.iterdir()}
    assert written == base(), "python -m tools.packages.chart writes it anew"


@pytest.mark.parametrize(
    "values", [{}, {"monitoring": {"enabled": True}}], ids=["plain", "watched"]
)
def test_kubernetes_accepts_the_manifests(values: dict[str, object]) -> None:
    checked = 0
    for each in manifests(**values):
        if each["kind"] not in OF_AN_OPERATOR:
            kubernetes_validate.validate(each, VERSION, strict=True)
            checked += 1
    assert checked >= 5


def test_a_manifest_with_a_slip_of_the_pen_is_not_accepted() -> None:
    service = manifests()[0]
    service["spec"]["ports"][0]["prot"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(service, VERSION, strict=True)


def test_every_manifest_is_of_its_release() -> None:
    for each in manifests(monitoring={"enabled": True}):
        assert each["metadata"]["name"].startswith("shop")
        assert each["metadata"]["labels"]["app.kubernetes.io/instance"] == "shop"


def test_the_router_can_do_little_and_write_only_its_state() -> None:
    pod = of_kind("StatefulSet")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = [m["name"] for m in container["volumeMounts"] if not m.get("readOnly")]
    assert writable == ["state", "tmp"]


def test_variables_of_services_are_not_taken_for_settings() -> None:
    """HEADGATE_PORT of a Service headgate would be an unknown key, and the router would not
    start."""
    assert of_kind("StatefulSet")["spec"]["template"]["spec"]["enableServiceLinks"] is False


def test_probes_ask_what_needs_no_token() -> None:
    [container] = of_kind("StatefulSet")["spec"]["template"]["spec"]["containers"]
    asked = {name: container[name]["httpGet"]["path"] for name in container if "Probe" in name}
    assert asked == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }


def test_a_router_starts_with_its_variables_and_its_file(tmp_path: Path) -> None:
    [container] = of_kind("StatefulSet")["spec"]["template"]["spec"]["containers"]
    secret = tmp_path / "admin-token"
    secret.write_text("a token of some length\n")
    environ = {
        each["name"]: each["value"].replace("/run/secrets/headgate", str(tmp_path))
        for each in container["env"]
    }
    path = tmp_path / "headgate.toml"
    path.write_text(of_kind("ConfigMap")["data"]["headgate.toml"])
    config = load_config(path, environ)
    assert config.warnings == ()
    assert config.admin.names == ("shop-admin",)
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"admin": config.admin.port, "smp": 5223}
    assert config.listen.smp is not None
    assert config.listen.smp.port == 5223


def test_ports_follow_the_listeners() -> None:
    listeners = {"smp": 5223, "resp": 6379}
    [service] = [
        each
        for each in manifests(listeners=listeners)
        if each["kind"] == "Service" and each["metadata"]["name"] == "shop"
    ]
    assert {p["name"]: p["port"] for p in service["spec"]["ports"]} == listeners


def test_monitoring_brings_the_rules_and_the_board() -> None:
    rules = of_kind("PrometheusRule", monitoring={"enabled": True})
    shipped = yaml.safe_load((FOLDER.parent / "prometheus" / "rules.yaml").read_text())
    assert rules["spec"] == shipped
    texts = [each.get("data", {}) for each in manifests(monitoring={"enabled": True})]
    [board] = [text["headgate.json"] for text in texts if "headgate.json" in text]
    assert board.rstrip() == (FOLDER.parent / "grafana" / "headgate.json").read_text().rstrip()


def test_a_storage_class_is_named_only_if_there_is_one() -> None:
    [claim] = of_kind("StatefulSet")["spec"]["volumeClaimTemplates"]
    assert "storageClassName" not in claim["spec"]
    chosen = {"size": "1Gi", "className": "fast"}
    [claim] = of_kind("StatefulSet", storage=chosen)["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"


@pytest.mark.skipif(shutil.which("helm") is None, reason="Debian has no helm; the renderer is ours")
def test_helm_makes_the_same(tmp_path: Path) -> None:
    helm = program("helm", "helm")
    run(helm, "lint", CHART)
    made = list(yaml.safe_load_all(run(helm, "template", "shop", CHART)))
    by_name = lambda each: (each["kind"], each["metadata"]["name"])  # noqa: E731
    assert sorted(filter(None, made), key=by_name) == sorted(manifests(), key=by_name)
