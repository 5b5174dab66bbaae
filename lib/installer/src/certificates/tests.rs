use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::sync::Barrier;

use super::*;

const DAY: i64 = 86_400;

fn at(day: i64) -> Timestamp {
    Timestamp::from_second(day * DAY).unwrap()
}

/// In a directory of its own, on day 20,000 (October 2024) unless said otherwise.
struct Case {
    _dir: tempfile::TempDir,
    path: PathBuf,
    options: CertificateOptions,
}

impl Case {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options =
            CertificateOptions { patience: Duration::from_millis(200), ..CertificateOptions::default() };
        Self { path: dir.path().join("webhook"), _dir: dir, options }
    }

    fn ensure(&self) -> Result<Certificates, CertificateError> {
        ensure(&self.path, &self.options, at(20_000))
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path.join(file)).unwrap()
    }

    fn write(&self, file: &str, text: &str) {
        fs::create_dir_all(&self.path).unwrap();
        fs::write(self.path.join(file), text).unwrap();
    }

    fn mode(&self, file: &str) -> u32 {
        fs::metadata(self.path.join(file)).unwrap().mode() & 0o7777
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// What a client that trusts `ca_bundle` alone thinks of `leaf` as the server `name` on `day`.
fn verified(leaf: &str, ca_bundle: &str, name: &str, day: i64) -> bool {
    let (leaf, ca) = (Pair::parse(leaf.as_bytes()).unwrap(), ca_bundle);
    let mut roots = RootCertStore::empty();
    let anchors: Vec<_> =
        rustls::pki_types::pem::PemObject::pem_slice_iter(ca.as_bytes()).map(Result::unwrap).collect();
    assert_eq!(roots.add_parsable_certificates(anchors), (1, 0));
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider())).build();
    let time = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(day * DAY).unwrap() + 1));
    let name = ServerName::try_from(name).unwrap();
    verifier.unwrap().verify_server_cert(leaf.certificate().unwrap(), &[], &name, &[], time).is_ok()
}

#[test]
fn the_first_run_makes_both_files_and_the_second_nothing() {
    let case = Case::new();
    let first = case.ensure().unwrap();
    assert!(first.changed);
    assert_eq!((first.leaf_expires, first.renew_at), (at(20_090), at(20_060)));
    assert_eq!(case.files(), [".lock", CA, LEAF]);
    assert_eq!((case.mode(""), case.mode(CA), case.mode(LEAF)), (0o750, 0o600, 0o640));
    let before = (case.read(CA), case.read(LEAF));
    let second = case.ensure().unwrap();
    assert!(!second.changed);
    assert_eq!((&second.ca_bundle, second.leaf_expires), (&first.ca_bundle, first.leaf_expires));
    assert_eq!((case.read(CA), case.read(LEAF)), before);
}

#[test]
fn clients_accept_the_certificate_from_1970_to_its_end_under_its_names_only() {
    let mut case = Case::new();
    case.options.names = vec!["Weaver.Local".into(), "10.0.0.7".into()];
    let bundle = case.ensure().unwrap().ca_bundle;
    let leaf = case.read(LEAF);
    for name in ["127.0.0.1", "::1", "localhost", "weaver.local", "10.0.0.7"] {
        assert!(verified(&leaf, &bundle, name, 20_000), "{name}");
    }
    assert!(!verified(&leaf, &bundle, "10.0.0.8", 20_000));
    for (day, expected) in [(0, true), (20_089, true), (20_090, false)] {
        assert_eq!(verified(&leaf, &bundle, "localhost", day), expected, "day {day}");
    }
}

#[test]
fn the_bundle_holds_no_key() {
    let case = Case::new();
    let certificates = case.ensure().unwrap();
    assert_eq!(certificates.ca_bundle.matches("-----BEGIN").count(), 1);
    assert!(case.read(CA).starts_with(&certificates.ca_bundle));
    assert!(!format!("{certificates:?}").contains("PRIVATE"));
}

#[test]
fn a_certificate_that_is_due_is_renewed_under_the_same_ca() {
    let case = Case::new();
    let first = case.ensure().unwrap();
    let leaf = case.read(LEAF);
    let early = ensure(&case.path, &case.options, at(20_059)).unwrap();
    assert!(!early.changed && case.read(LEAF) == leaf);
    let due = ensure(&case.path, &case.options, first.renew_at).unwrap();
    assert!(due.changed && case.read(LEAF) != leaf);
    assert_eq!((due.ca_bundle, due.leaf_expires), (first.ca_bundle, at(20_150)));
}

#[test]
fn an_added_name_renews() {
    let mut case = Case::new();
    case.ensure().unwrap();
    case.options.names = vec!["weaver.config-weaver.svc".into()];
    let renewed = case.ensure().unwrap();
    assert!(renewed.changed);
    assert!(verified(&case.read(LEAF), &renewed.ca_bundle, "weaver.config-weaver.svc", 20_000));
    case.options.names.clear();
    assert!(!case.ensure().unwrap().changed, "a name more than asked for is no reason");
}

#[test]
fn a_leaf_of_another_ca_and_garbage_are_replaced() {
    let case = Case::new();
    let bundle = case.ensure().unwrap().ca_bundle;
    let other = Case::new();
    other.ensure().unwrap();
    for bad in [other.read(LEAF), "garbage".into(), String::new(), case.read(LEAF)[..300].into()] {
        case.write(LEAF, &bad);
        let healed = case.ensure().unwrap();
        assert!(healed.changed && healed.ca_bundle == bundle);
        assert!(verified(&case.read(LEAF), &bundle, "localhost", 20_000));
    }
}

#[test]
fn a_certificate_that_is_not_a_servers_is_replaced() {
    let case = Case::new();
    case.ensure().unwrap();
    // The CA itself: rightly signed, and not good for a server.
    case.write(LEAF, &case.read(CA));
    assert!(case.ensure().unwrap().changed);
}

#[test]
fn an_unusable_ca_is_named_with_the_remedy_and_left_alone() {
    let other = Case::new();
    other.ensure().unwrap();
    let certificate = other.ensure().unwrap().ca_bundle;
    for (bad, why) in [
        ("garbage".to_owned(), "it holds no certificate"),
        (String::new(), "it holds no certificate"),
        (certificate, "it holds no private key"),
        (other.read(LEAF), "not a CA certificate"),
        (other.read(CA)[..400].to_owned(), "truncated"),
    ] {
        let case = Case::new();
        case.write(CA, &bad);
        let words = case.ensure().unwrap_err().to_string();
        let path = case.path.join(CA).display().to_string();
        assert!(words.contains(why) && words.contains(&format!("rm {path}")), "{words}");
        assert_eq!(case.read(CA), bad);
        assert!(!case.path.join(LEAF).exists());
        // And the remedy is one.
        fs::remove_file(&path).unwrap();
        assert!(case.ensure().unwrap().changed);
    }
}

#[test]
fn a_run_that_was_killed_is_finished_by_the_next() {
    let whole = Case::new();
    whole.ensure().unwrap();
    let (ca, leaf) = (whole.read(CA), whole.read(LEAF));
    let half = |text: &str| text[..text.len() / 2].to_owned();
    for (name, files) in [
        ("nothing but the directory", vec![]),
        ("half a CA next to", vec![("ca.pem.new", half(&ca))]),
        ("a whole CA next to", vec![("ca.pem.new", ca.clone())]),
        ("a CA and no leaf", vec![(CA, ca.clone())]),
        ("half a leaf next to", vec![(CA, ca.clone()), ("leaf.pem.new", half(&leaf))]),
        ("a new CA and the old one's leaf", vec![(LEAF, leaf.clone())]),
        ("a lock that no one holds", vec![(".lock", String::new())]),
    ] {
        let case = Case::new();
        fs::create_dir_all(&case.path).unwrap();
        for (file, text) in &files {
            case.write(file, text);
        }
        let healed = case.ensure().unwrap();
        assert!(healed.changed, "{name}");
        assert!(verified(&case.read(LEAF), &healed.ca_bundle, "localhost", 20_000), "{name}");
        assert!(!case.ensure().unwrap().changed, "{name}");
        let kept = case.read(CA);
        assert_eq!(kept == ca, files.iter().any(|(file, _)| *file == CA), "{name}");
        assert!(!case.path.join("leaf.pem.new").exists(), "{name}");
    }
}

#[test]
fn modes_are_repaired_without_a_new_certificate() {
    let case = Case::new();
    case.ensure().unwrap();
    for file in [CA, LEAF] {
        fs::set_permissions(case.path.join(file), Permissions::from_mode(0o666)).unwrap();
    }
    assert!(!case.ensure().unwrap().changed);
    assert_eq!((case.mode(CA), case.mode(LEAF)), (0o600, 0o640));
}

#[test]
fn the_leaf_has_the_directorys_group_unless_another_is_set() {
    // Only root may give files away; anyone else's own group has to do.
    let own = fs::metadata("/proc/self").unwrap();
    let (first, second) = if own.uid() == 0 { (12_345, 54_321) } else { (own.gid(), own.gid()) };
    let mut case = Case::new();
    fs::create_dir_all(&case.path).unwrap();
    chown(&case.path, None, Some(first)).unwrap();
    let group = |case: &Case, file: &str| fs::metadata(case.path.join(file)).unwrap().gid();
    case.ensure().unwrap();
    assert_eq!((group(&case, LEAF), group(&case, CA)), (first, own.gid()));
    case.options.readers = Readers::Group(second);
    assert!(!case.ensure().unwrap().changed);
    assert_eq!((group(&case, LEAF), group(&case, "")), (second, second));
    assert_eq!((group(&case, CA), case.mode(CA)), (own.gid(), 0o600), "the CA's key is root's alone");
    // As an earlier version, or someone, has left them.
    for (file, mode) in [("", 0o755), (CA, 0o640), (LEAF, 0o644)] {
        let path = case.path.join(file);
        chown(&path, None, Some(first)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    assert!(!case.ensure().unwrap().changed);
    assert_eq!((group(&case, LEAF), group(&case, "")), (second, second));
    assert_eq!((case.mode(""), case.mode(CA), case.mode(LEAF)), (0o750, 0o600, 0o640));
}

#[test]
fn where_the_webhooks_group_is_missing_no_other_group_reads_the_key() {
    let mut case = Case::new();
    case.options.readers = Readers::OwnerOnly;
    let modes = |case: &Case| (case.mode(""), case.mode(CA), case.mode(LEAF));
    assert!(case.ensure().unwrap().changed);
    assert_eq!(modes(&case), (0o700, 0o600, 0o600));
    // As they were for a group that has been removed since, and as an attacker with a group would like them.
    for (file, mode) in [("", 0o775), (CA, 0o660), (LEAF, 0o644)] {
        fs::set_permissions(case.path.join(file), Permissions::from_mode(mode)).unwrap();
    }
    assert!(!case.ensure().unwrap().changed);
    assert_eq!(modes(&case), (0o700, 0o600, 0o600));
    // The group is there again.
    let own = fs::metadata("/proc/self").unwrap().gid();
    case.options.readers = Readers::Group(own);
    assert!(!case.ensure().unwrap().changed);
    assert_eq!(modes(&case), (0o750, 0o600, 0o640));
}

#[test]
fn a_life_of_a_second_is_one() {
    let mut case = Case::new();
    case.options.lifetime = Duration::from_secs(1);
    let now = Timestamp::from_millisecond(1_000_000_000_900).unwrap();
    let certificates = ensure(&case.path, &case.options, now).unwrap();
    assert_eq!(certificates.leaf_expires, Timestamp::from_second(1_000_000_001).unwrap());
}

#[test]
fn a_name_no_certificate_can_have_is_refused_before_anything_is_made() {
    for bad in ["", "a b", "-a.example", "*.example", "https://a"] {
        let mut case = Case::new();
        case.options.names = vec![bad.into()];
        let words = case.ensure().unwrap_err().to_string();
        assert!(words.contains(&format!("{bad:?} is neither")), "{words}");
        assert!(!case.path.exists());
    }
}

#[test]
fn a_held_lock_is_waited_for_and_then_named() {
    let case = Case::new();
    let first = case.ensure().unwrap();
    let lock = File::open(case.path.join(".lock")).unwrap();
    lock.lock().unwrap();
    let words = case.ensure().unwrap_err().to_string();
    assert!(words.contains(".lock is still locked"), "{words}");
    drop(lock);
    assert_eq!(case.ensure().unwrap().ca_bundle, first.ca_bundle);
}

#[test]
fn installers_at_the_same_time_agree_on_one_ca() {
    let mut case = Case::new();
    case.options.patience = Duration::from_mins(1);
    let start = Barrier::new(4);
    let bundles: BTreeSet<String> = std::thread::scope(|scope| {
        let run = || {
            start.wait();
            case.ensure().unwrap().ca_bundle
        };
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert_eq!(bundles.len(), 1);
    assert!(bundles.iter().all(|bundle| verified(&case.read(LEAF), bundle, "localhost", 20_000)));
}

#[test]
fn missing_parents_are_open_to_the_group() {
    let mut case = Case::new();
    let above = case.path.clone();
    case.path = above.join("a/webhook");
    case.ensure().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!((mode(&above), mode(&above.join("a")), case.mode("")), (0o755, 0o755, 0o750));
    // And those that are there stay as someone wanted them.
    fs::set_permissions(&above, Permissions::from_mode(0o700)).unwrap();
    case.ensure().unwrap();
    assert_eq!(mode(&above), 0o700);
}

#[test]
fn missing_parents_are_open_to_the_group_under_a_strict_umask_too() {
    // In a process of its own: a umask is shared by all threads.
    let tests = std::env::current_exe().unwrap();
    let mut strict = std::process::Command::new("sh");
    strict.args(["-c", "umask 077 && exec \"$0\" --exact \"$1\""]).arg(tests);
    let ran = strict.arg("certificates::tests::missing_parents_are_open_to_the_group").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn what_is_in_the_way_is_named() {
    let case = Case::new();
    fs::write(&case.path, "a file where the directory should be").unwrap();
    let words = format!("{:#}", anyhow::Error::new(case.ensure().unwrap_err()));
    assert!(words.contains("cannot make the directory") && words.contains("webhook"), "{words}");
}
