//! The workflows of a forge run what anyone runs: make targets, and nothing of their own.

use std::fs;
use std::path::Path;

use serde_json::Value;
use weaver_tests::monitoring::file;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../.github/workflows")
}

/// The commands of a job, one for each value of its matrix.
fn commands(job: &Value) -> Vec<String> {
    let steps = job["steps"].as_array().unwrap();
    let runs = steps.iter().filter_map(|step| step["run"].as_str());
    let targets = job["strategy"]["matrix"]["target"].as_array().cloned().unwrap_or_default();
    let filled = |run: &str| -> Vec<String> {
        let of = |target: &Value| run.replace("${{ matrix.target }}", target.as_str().unwrap());
        if run.contains("matrix.target") { targets.iter().map(of).collect() } else { vec![run.to_owned()] }
    };
    runs.flat_map(filled).collect()
}

#[test]
fn a_workflow_runs_targets_of_the_makefile_and_nothing_else() {
    let makefile = file("Makefile");
    let mut found = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let workflow: Value = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        for (name, job) in workflow["jobs"].as_object().unwrap() {
            for command in commands(job) {
                let target = command
                    .strip_prefix("make ")
                    .filter(|target| !target.contains([' ', ';', '&', '|', '\n']));
                let target = target.unwrap_or_else(|| panic!("{}: {name}: `{command}`", path.display()));
                assert!(makefile.contains(&format!("\n{target}: ")), "{}: make {target}", path.display());
                found += 1;
            }
        }
    }
    assert!(found >= 5, "{found}");
}
