//! The demonstration runs, and its exit code says what its report says.

use std::process::Command;

fn evenkeel() -> Command {
    Command::new(env!("CARGO_BIN_EXE_evenkeel"))
}

#[test]
fn the_report_and_the_exit_code_agree() {
    let folder = tempfile::tempdir().unwrap();
    let figure = folder.path().join("demo.svg");
    let output =
        evenkeel().args(["demo", "--seconds", "2", "--json", "--svg"]).arg(&figure).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let broken = |phase: &serde_json::Value| {
        let tenants = phase["tenants"].as_array().unwrap().iter();
        tenants.filter(|tenant| tenant["verdict"] == "broken").count()
    };
    let phases = report["phases"].as_array().unwrap();
    assert_eq!([&phases[0]["scheduler"], &phases[1]["scheduler"]], ["fcfs", "pclock"]);
    // 128 requests of the bully take 128 ms: without scheduling nobody's deadline can be met for long.
    assert_eq!(broken(&phases[0]), 2, "{report}");
    assert_eq!(report["ok"], broken(&phases[1]) == 0);
    assert_eq!(output.status.code(), Some(if report["ok"] == true { 0 } else { 1 }));
    assert!(std::fs::read_to_string(figure).unwrap().starts_with("<svg"));
}

#[test]
fn its_configuration_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let text = evenkeel().args(["demo", "--print-config"]).output().unwrap().stdout;
    let file = folder.path().join("demo.toml");
    std::fs::write(&file, text).unwrap();
    let check = evenkeel().arg("check").arg(file).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}
