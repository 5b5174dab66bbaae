//! All states that a cut may leave of one part of a recording, each looked at.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::time::{Duration, Instant};

use weaver_image::build::disk::ROOT_START;

use super::boot_files::{self, BootFileStates};
use super::rebuilt::Rebuilt;
use super::recording::Recording;
use super::root_files::{self, FileContents, ReplayedRoot};
use super::write_log::{LoggedRequest, Lost};

/// How often of a stretch that writes the boot partition something is lost, and of another one.
const TRIES: [usize; 2] = [8, 1];
/// Of a stretch with so few writes of the boot partition every choice of them is lost, too.
const FEW: usize = 5;
/// Of so many states that write the root, the first has its whole root file system checked: a copy and seconds.
const WHOLE: usize = 40;

/// A state, as far as it was looked at.
pub struct CutState {
    /// Entries that are on the card, and `, n-th loss` where some of the next are not.
    pub name: String,
    pub boot: Option<boot_files::ObservedBoot>,
    pub root: Option<ReplayedRoot>,
}

/// How many were looked at, and how long that took.
#[derive(Debug, Default)]
pub struct Figures {
    pub cuts: usize,
    pub losses: usize,
    /// Of the losses, those that are a choice of a few writes of the boot partition.
    pub choices: usize,
    pub boot: usize,
    pub root: usize,
    pub writes_root: usize,
    pub whole: usize,
    pub spent: [Duration; 3],
}

/// What is on the card before a part and after it.
struct Ends {
    boot: BootFileStates,
    root: [FileContents; 2],
}

/// Looks at each state of the part, which changes these files of the boot partition, with `also` what is
/// particular to it; panics with what is wrong.
pub fn look(part: &str, changed: &[&str], also: impl Fn(&CutState) -> Vec<String>) -> Figures {
    let recording = Recording::of(part);
    let ends = ends(&recording);
    assert_eq!(ends.boot.changed(), changed, "{part}");
    if part != "repair" {
        // That card has no k3s yet.
        assert_eq!(root_files::missing(&ends.root[1]), [""; 0], "{part}");
    }
    let (log, entries) = (&recording.log, recording.log.entries());
    let begin = |rebuilt: &mut Rebuilt<'_>| rebuilt.advance(recording.part.start);
    let mut rebuilt = Rebuilt::new(log, recording.card().boot(), |to| recording.write_start(to));
    begin(&mut rebuilt);
    let cuts: BTreeSet<_> = log.cuts(recording.part.clone(), &rebuilt.boot()).into_iter().collect();
    let stretches = log.stretches(recording.part.clone());
    let starts: BTreeSet<_> = stretches.iter().map(|stretch| stretch.start).collect();
    let mut looker =
        Looker { ends: &ends, figures: Figures::default(), wrong: Vec::new(), said: BTreeSet::new(), also };
    let mut lost = Lost::of_seed(1);
    let mut before = recording.part.start;
    for at in cuts.union(&starts) {
        rebuilt.advance(*at);
        if cuts.contains(at) {
            looker.figures.cuts += 1;
            let written = touched(entries, before..*at, &rebuilt.boot());
            looker.look(format!("after {at} entries"), &rebuilt, written);
            before = *at;
        }
        if let Some(stretch) = stretches.iter().find(|stretch| stretch.start == *at) {
            let written = touched(entries, stretch.clone(), &rebuilt.boot());
            let boot = rebuilt.boot();
            let of_boot = entries[stretch.clone()].iter().filter(|entry| entry.touches(&boot)).count();
            for (choice, with_others) in choices(of_boot, written[1]) {
                looker.figures.losses += 1;
                looker.figures.choices += 1;
                let others = if with_others { "all others" } else { "no other" };
                let name = format!(
                    "after {at} entries, of the next {of_boot} of the boot partition kept: {choice:b}, and {others}"
                );
                let mut rest = choice;
                let kept = |entry: &LoggedRequest| {
                    if !entry.touches(&boot) {
                        return if with_others { entry.length } else { 0 };
                    }
                    let is_kept = rest & 1 == 1;
                    rest >>= 1;
                    if is_kept { entry.length } else { 0 }
                };
                rebuilt.with_lost(stretch.end, kept, |rebuilt| looker.look(name, rebuilt, written));
            }
            for number in 0..TRIES[usize::from(!written[0])] {
                looker.figures.losses += 1;
                let name = format!("after {at} entries, loss {number} of the next {}", stretch.len());
                // ext4 counts on its superblock being written whole (docs/explanation/power-cuts.md has what a
                // torn one does).
                let kept = |entry: &LoggedRequest| match lost.kept(entry) {
                    part if part < entry.length && entry.at == ROOT_START => 0,
                    part => part,
                };
                rebuilt.with_lost(stretch.end, kept, |rebuilt| looker.look(name, rebuilt, written));
            }
        }
    }
    for line in &looker.said {
        println!("{part}: fsck.vfat said: {line}");
    }
    println!("{part}: {:#?}", looker.figures);
    for line in &looker.wrong {
        println!("{part}: WRONG {line}");
    }
    assert!(
        looker.wrong.is_empty(),
        "{part}: {} things are wrong, first {}",
        looker.wrong.len(),
        looker.wrong[0]
    );
    looker.figures
}

/// Which of a few writes of the boot partition are kept, a bit each, and whether all are that are written elsewhere
/// meanwhile; without none and all, which are cuts.
fn choices(of_boot: usize, has_others: bool) -> Vec<(u32, bool)> {
    if !(1..=FEW).contains(&of_boot) {
        return Vec::new();
    }
    let all = (1 << of_boot) - 1;
    let others: &[bool] = if has_others { &[true, false] } else { &[false] };
    let each = others.iter().flat_map(|others| (0..=all).map(move |choice| (choice, *others)));
    each.filter(|kept| *kept != (0, false) && *kept != (all, has_others)).collect()
}

/// Whether the boot partition is written, and whether anything else is.
fn touched(entries: &[LoggedRequest], part: Range<usize>, boot: &Range<u64>) -> [bool; 2] {
    let writes = || entries[part.clone()].iter().filter(|entry| entry.length > 0);
    [writes().any(|entry| entry.touches(boot)), writes().any(|entry| !entry.touches(boot))]
}

fn ends(recording: &Recording) -> Ends {
    let mut rebuilt = Rebuilt::new(&recording.log, recording.card().boot(), |to| recording.write_start(to));
    rebuilt.advance(recording.part.start);
    let before = rebuilt.fat().with_extension("before");
    fs::copy(rebuilt.fat(), &before).unwrap();
    let watched = |rebuilt: &Rebuilt<'_>| ReplayedRoot::of(&rebuilt.card()).unwrap().watched().unwrap();
    let root = watched(&rebuilt);
    rebuilt.advance(recording.part.end);
    Ends { boot: BootFileStates::new(&before, &rebuilt.fat()), root: [root, watched(&rebuilt)] }
}

struct Looker<'a, A> {
    ends: &'a Ends,
    figures: Figures,
    wrong: Vec<String>,
    said: BTreeSet<String>,
    also: A,
}

impl<A: Fn(&CutState) -> Vec<String>> Looker<'_, A> {
    fn look(&mut self, name: String, rebuilt: &Rebuilt<'_>, [boot, root]: [bool; 2]) {
        let mut wrong = Vec::new();
        let mut state = CutState { name, boot: None, root: None };
        let begun = Instant::now();
        if boot {
            self.figures.boot += 1;
            let seen = self.ends.boot.look(&rebuilt.fat());
            wrong.extend(seen.wrong.iter().cloned());
            self.said.extend(seen.fsck.iter().cloned());
            state.boot = Some(seen);
            self.figures.spent[0] += begun.elapsed();
        }
        let begun = Instant::now();
        self.figures.root += 1;
        // What reads in place is stricter than the kernel at moments, as while the file system grows: then the kernel's
        // own way is asked.
        let mut mended = None;
        let read = ReplayedRoot::of(&rebuilt.card()).or_else(|_| {
            self.figures.whole += 1;
            let (dir, root) = root_files::mended(&rebuilt.card())?;
            mended = Some(dir);
            Ok(root)
        });
        match read.and_then(|root: ReplayedRoot| Ok((root.watched()?, root))) {
            Ok((now, read)) => {
                wrong.extend(root_files::judge(&now, &self.ends.root[0], &self.ends.root[1]));
                state.root = Some(read);
            }
            Err(why) => wrong.push(why),
        }
        wrong.extend((self.also)(&state));
        drop(mended);
        self.figures.spent[1] += begun.elapsed();
        let begun = Instant::now();
        self.figures.writes_root += usize::from(root);
        if root && self.figures.writes_root % WHOLE == 1 {
            self.figures.whole += 1;
            wrong.extend(root_files::mended(&rebuilt.card()).err());
            self.figures.spent[2] += begun.elapsed();
        }
        self.wrong.extend(wrong.into_iter().map(|what| format!("{}: {what}", state.name)));
    }
}
