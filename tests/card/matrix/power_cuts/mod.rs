//! The power is cut at any moment of a first boot with an import, of an upgrade of k3s, and of a repair.
//!
//! What a machine writes is recorded once; each state that a cut may leave is rebuilt from it and looked at, and one is
//! booted. docs/explanation/power-cuts.md has what was seen and what is not covered.

mod boot_files;
mod booted;
mod rebuilt;
mod recording;
mod root_files;
mod states;
mod write_log;

use weaver_image::boot::programs;

use rebuilt::Rebuilt;
use recording::{FAULT, Recording, TOKEN};
use states::CutState;

#[test]
#[ignore = "needs the image: make image-matrix"]
fn all_writes_replayed_are_the_card_that_the_machine_left() {
    let recording = Recording::of("repair");
    let mut rebuilt = Rebuilt::new(&recording.log, recording.card().boot(), |to| recording.write_start(to));
    rebuilt.advance(recording.log.entries().len());
    let mut compare = programs::command("qemu-img");
    compare.args(["compare", "-f", "raw", "-F", "qcow2"]).arg(rebuilt.card()).arg(recording.end());
    programs::run(&mut compare).unwrap();
}

#[test]
#[ignore = "needs the image: make image-matrix"]
fn a_first_boot_that_is_cut_off_leaves_whole_files_and_the_token_in_one_of_its_two_places() {
    let figures = states::look("first-boot", &["weaver.toml"], |state: &CutState| {
        let Some(boot) = &state.boot else { return Vec::new() };
        let kept = state.root.as_ref().and_then(|root| root.read(root_files::TOKEN_FILE).ok().flatten());
        let imported = kept.is_some_and(|content| content == format!("{TOKEN}\n").into_bytes());
        let mut wrong = Vec::new();
        if !boot.weaver_toml.contains(TOKEN) && !imported {
            wrong.push("the token is lost".to_owned());
        }
        // boot-config removes it at the next boot, by the token that it has imported.
        if holds_token(&boot.saved) && !imported {
            wrong.push("fsck.vfat saved the token, and no one knows that it is one".to_owned());
        }
        wrong
    });
    assert!(figures.choices > 0, "{figures:#?}");
}

#[test]
#[ignore = "needs the image: make image-matrix"]
fn after_an_import_the_token_is_nowhere_on_the_boot_partition_not_even_in_what_is_free() {
    let recording = Recording::of("first-boot");
    let mut rebuilt = Rebuilt::new(&recording.log, recording.card().boot(), |to| recording.write_start(to));
    assert!(holds_token(&std::fs::read(rebuilt.fat()).unwrap()), "its owner wrote it there");
    rebuilt.advance(recording.part.end);
    assert!(!holds_token(&std::fs::read(rebuilt.fat()).unwrap()));
}

#[test]
#[ignore = "needs the image: make image-matrix"]
fn a_repair_that_is_cut_off_leaves_the_line_with_the_fault_or_the_line_without() {
    let figures =
        states::look("repair", &["cmdline.txt", "cmdline.txt.weaver-before"], |state: &CutState| {
            let Some(boot) = &state.boot else { return Vec::new() };
            let mut wrong = Vec::new();
            if boot.cmdline.lines().count() != 1 {
                wrong.push(format!("cmdline.txt is {:?}", boot.cmdline));
            }
            if !boot.cmdline.contains(FAULT) && !boot.cmdline_before.contains(FAULT) {
                wrong.push("the line is mended, and what it was is not kept".to_owned());
            }
            wrong
        });
    assert!(figures.choices > 0, "{figures:#?}");
}

#[test]
#[ignore = "needs the image: make image-matrix"]
fn an_upgrade_that_is_cut_off_leaves_a_whole_k3s_and_says_which_was_under_way() {
    let end = std::cell::OnceCell::new();
    states::look("upgrade", &[], |state: &CutState| {
        let Some(root) = &state.root else { return Vec::new() };
        let looked = upgrade(root);
        let Ok(seen) = looked else { return vec![looked.unwrap_err()] };
        // The first state is one before anything was replaced.
        let old = end.get_or_init(|| seen.installed.clone());
        let mut wrong = Vec::new();
        if seen.installed == *old {
            return wrong;
        }
        if seen.noted.as_ref() != Some(&(old.clone(), seen.installed.clone())) {
            wrong.push(format!("k3s is {}, and the journal tells of {:?}", seen.installed, seen.noted));
        }
        if seen.previous.as_ref() != Some(old) {
            wrong.push(format!("the k3s before is {:?}, and not {old}", seen.previous));
        }
        wrong
    });
}

fn holds_token(bytes: &[u8]) -> bool {
    bytes.windows(TOKEN.len()).any(|word| word == TOKEN.as_bytes())
}

/// SHA-256 of the programs, and of the two that the journal names: from which, to which.
#[derive(Debug)]
struct ProgramHashes {
    installed: String,
    previous: Option<String>,
    noted: Option<(String, String)>,
}

fn upgrade(root: &root_files::ReplayedRoot) -> Result<ProgramHashes, String> {
    let installed = root.hash(root_files::K3S)?.ok_or("there is no k3s")?;
    let previous = root.hash(&format!("{}.previous", root_files::K3S))?;
    let journal = root.read(root_files::UPGRADE)?;
    let journal = journal.map(|text| serde_json::from_slice(&text)).transpose();
    let journal: Option<serde_json::Value> =
        journal.map_err(|error| format!("the journal is damaged: {error}"))?;
    let hash = |of: &serde_json::Value| of["sha256"].as_str().unwrap_or_default().to_owned();
    let noted = journal.map(|record| (hash(&record["from"]), hash(&record["to"])));
    Ok(ProgramHashes { installed, previous, noted })
}
