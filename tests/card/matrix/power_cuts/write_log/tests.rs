//! Logs made by hand, and one that QEMU's own driver keeps.

use std::fs;

use proptest::prelude::*;

use weaver_image::boot::programs;

use super::*;

/// A log of these entries: sector, flags, data.
fn log(entries: &[(u64, u64, Vec<u8>)]) -> Vec<u8> {
    let sector = usize::try_from(SECTOR).unwrap();
    let block = |words: [u64; 4]| {
        let mut block: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        block.resize(sector, 0xee);
        block
    };
    // The sector's size is a 32-bit word, and what follows it is padding.
    let mut made = block([MAGIC, VERSION, entries.len() as u64, SECTOR | 0xee << 32]);
    for (first, flags, data) in entries {
        made.extend(block([*first, (data.len() / sector) as u64, *flags, 0]));
        made.extend(data);
    }
    made
}

fn opened(bytes: &[u8]) -> Result<WriteLog> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("log");
    fs::write(&path, bytes)?;
    WriteLog::open(&path)
}

fn sectors(count: usize, byte: u8) -> Vec<u8> {
    vec![byte; count * usize::try_from(SECTOR).unwrap()]
}

#[test]
fn entries_are_read_with_their_place_their_data_and_their_barriers() {
    let log = opened(&log(&[
        (4, 0, sectors(2, 1)),
        (0, FLUSH, Vec::new()),
        (9, FUA, sectors(1, 2)),
        (6, 0, sectors(1, 3)),
    ]))
    .unwrap();
    let seen: Vec<_> =
        log.entries().iter().map(|e| (e.at / SECTOR, e.length / SECTOR, e.is_barrier)).collect();
    assert_eq!(seen, [(4, 2, false), (0, 0, true), (9, 1, true), (6, 1, false)]);
    assert_eq!(log.content(&log.entries()[2]).unwrap(), sectors(1, 2));
    assert_eq!(log.stretches(0..4), [0..1, 3..4], "the second has only its barrier");
    assert!(log.stretches(1..3).is_empty(), "nothing but barriers");
}

#[test]
fn a_cut_comes_after_each_barrier_after_each_write_of_the_watched_part_and_at_the_end() {
    let log = opened(&log(&[
        (4, 0, sectors(2, 1)),
        (20, 0, sectors(1, 1)),
        (0, FLUSH, Vec::new()),
        (5, 0, sectors(9, 1)),
        (30, 0, sectors(1, 1)),
        (30, 0, sectors(1, 1)),
    ]))
    .unwrap();
    assert_eq!(log.cuts(0..6, &(20 * SECTOR..21 * SECTOR)), [2, 3, 6]);
    assert_eq!(log.cuts(0..6, &(6 * SECTOR..7 * SECTOR)), [3, 4, 6], "the first ends before it");
    assert_eq!(log.cuts(3..5, &(0..0)), [5]);
    assert_eq!(log.cuts(3..3, &(0..0)), Vec::<usize>::new());
}

#[test]
fn a_discard_and_a_mark_write_nothing() {
    let mut bytes = log(&[(4, DISCARD, Vec::new()), (0, MARK, Vec::new()), (8, 0, sectors(1, 7))]);
    // The length of a discard counts sectors, that of a mark bytes of text.
    bytes[512 + 8] = 99;
    let log = opened(&bytes).unwrap();
    assert_eq!(log.entries().iter().map(|entry| entry.length).collect::<Vec<_>>(), [0, 0, SECTOR]);
    assert!(!log.entries()[0].touches(&(0..1 << 30)));
}

#[test]
fn what_is_no_whole_log_is_named_with_the_entry() {
    let whole = log(&[(4, 0, sectors(2, 1)), (4, 0, sectors(2, 1))]);
    let mut huge = whole.clone();
    huge[512..520].fill(0xff);
    for (bytes, want) in [
        (Vec::new(), "it ends before that"),
        (sectors(1, 0), "does not begin as one"),
        (whole[..whole.len() - 1].to_vec(), "ends within entry 1 of 2"),
        (whole[..512 * 3].to_vec(), "ends within entry 0 of 2"),
        (whole[..512 * 4].to_vec(), "entry 1 of 2"),
        (huge, "beyond any card"),
    ] {
        let error = format!("{:#}", opened(&bytes).unwrap_err());
        assert!(error.contains(want) && error.contains("log"), "{error}");
    }
}

#[test]
fn what_is_lost_is_the_same_for_the_same_seed_and_of_every_kind() {
    let entry = LoggedRequest { at: 0, length: 8 * SECTOR, is_barrier: false, data: 0 };
    let kept = |seed| {
        let mut lost = Lost::of_seed(seed);
        (0..200).map(|_| lost.kept(&entry)).collect::<Vec<_>>()
    };
    assert_eq!(kept(1), kept(1));
    assert_ne!(kept(1), kept(2));
    let kept = kept(1);
    assert!(kept.contains(&0) && kept.contains(&entry.length) && kept.contains(&(3 * SECTOR)), "{kept:?}");
    assert!(kept.iter().all(|bytes| *bytes <= entry.length && bytes % SECTOR == 0), "{kept:?}");
}

/// QEMU itself writes and logs, by qemu-io: what is replayed is what is on its disk.
#[test]
fn a_log_of_qemus_replayed_is_the_disk_that_it_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, path, again) = (dir.path().join("disk"), dir.path().join("log"), dir.path().join("again"));
    for file in [&disk, &again] {
        File::create(file).unwrap().set_len(1 << 20).unwrap();
    }
    File::create(&path).unwrap();
    let options = format!(
        "driver=blklogwrites,file.driver=raw,file.file.driver=file,file.file.filename={},\
         log.driver=file,log.filename={}",
        disk.display(),
        path.display()
    );
    let mut command = programs::command("qemu-io");
    command.args(["--image-opts", "-t", "writeback", &options]);
    for words in [
        "write -P 1 0 64k",
        "write -P 2 4k 512",
        "flush",
        "write -z 32k 8k",
        "write -f -P 3 100k 1k",
        "flush",
    ] {
        command.args(["-c", words]);
    }
    programs::run(&mut command).unwrap();
    let log = WriteLog::open(&path).unwrap();
    let card = fs::OpenOptions::new().write(true).open(&again).unwrap();
    log.entries().iter().for_each(|entry| log.replay(entry, &card).unwrap());
    assert_eq!(fs::read(&again).unwrap(), fs::read(&disk).unwrap());
    assert!(log.entries().iter().filter(|entry| entry.is_barrier).count() >= 2, "{:?}", log.entries());
    assert!(fs::read(&disk).unwrap().contains(&3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// The whole log replayed gives the final content, in whatever parts it is replayed.
    #[test]
    fn all_entries_replayed_are_what_was_written(
        writes in prop::collection::vec((0u64..32, 0usize..6, any::<u8>(), any::<bool>()), 0..20),
        split in 0usize..20,
    ) {
        let made: Vec<_> = writes.iter().map(|(at, count, byte, flush)| {
            (*at, if *flush { FUA } else { 0 }, sectors(*count, *byte))
        }).collect();
        let mut end = sectors(40, 0);
        for (at, _, data) in &made {
            let at = usize::try_from(at * SECTOR).unwrap();
            end[at..at + data.len()].copy_from_slice(data);
        }
        let log = opened(&log(&made)).unwrap();
        let card = tempfile::tempfile().unwrap();
        card.set_len(end.len() as u64).unwrap();
        let (first, rest) = log.entries().split_at(split.min(made.len()));
        for entry in first.iter().chain(rest) {
            log.replay(entry, &card).unwrap();
        }
        let mut got = vec![0; end.len()];
        card.read_exact_at(&mut got, 0).unwrap();
        prop_assert_eq!(got, end);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(mut bytes: Vec<u8>, magic: bool) {
        if magic {
            let mut begun = log(&[]);
            begun[16] = 3;
            begun.append(&mut bytes);
            bytes = begun;
        }
        let _ = opened(&bytes);
    }
}
