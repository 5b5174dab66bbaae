//! `weaver verify` as a user runs it, on a small release that minisign has signed.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
const ARCHIVE: &str = "weaver-0.2.0-rc.1-linux-amd64.tar.gz";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What is done to a release.
type Change = Box<dyn FnOnce(&Path)>;

/// A copy of the release.
struct Release(TempDir);

impl Release {
    fn new() -> Self {
        let release = Self(tempfile::tempdir().unwrap());
        fs::create_dir(release.0.path().join("apt")).unwrap();
        for name in ["SHA256SUMS", "SHA256SUMS.minisig", "apt/weaver.deb", "provenance.intoto.json", ARCHIVE]
        {
            fs::copy(format!("{FIXTURES}/release/{name}"), release.0.path().join(name)).unwrap();
        }
        release
    }

    /// With this done to one of its files.
    fn with(change: impl FnOnce(&Path)) -> Self {
        let release = Self::new();
        change(release.0.path());
        release
    }

    /// Exit status, standard output and standard error, in its directory.
    fn verify(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let weaver = env!("CARGO_BIN_EXE_weaver");
        let done =
            Command::new(weaver).arg("verify").args(arguments).current_dir(self.0.path()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (done.status.code(), text(done.stdout), text(done.stderr))
    }

    fn signed(&self, file: &str) -> (Option<i32>, String, String) {
        self.verify(&[file, "--key", &format!("{FIXTURES}/owner.pub")])
    }
}

#[test]
fn each_file_and_the_whole_directory_are_as_published() {
    let release = Release::new();
    let signed = "SHA256SUMS: signed by the key 5816789DAE322018: Config Weaver 0.2.0-rc.1\n";
    for file in [ARCHIVE, &format!("./{ARCHIVE}"), &format!("apt/../{ARCHIVE}")] {
        let (status, said, noted) = release.signed(file);
        assert_eq!((status, noted.as_str()), (Some(0), ""), "{file}: {said}");
        assert!(said.contains(signed), "{said}");
        assert!(said.ends_with(&format!("{ARCHIVE}: as published, built of commit {COMMIT}\n")), "{said}");
    }
    let (status, said, _) = release.signed(".");
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(said.lines().count(), 4, "{said}");
    let key = fs::read_to_string(format!("{FIXTURES}/owner.pub")).unwrap();
    let (status, said, _) =
        release.verify(&["apt/weaver.deb", "--sums", "SHA256SUMS", "--key", key.lines().nth(1).unwrap()]);
    assert!(status == Some(0) && said.contains("apt/weaver.deb: as published"), "{said}");
    // Downloaded to another directory.
    let elsewhere = release.0.path().join("apt").join(ARCHIVE);
    fs::rename(release.0.path().join(ARCHIVE), &elsewhere).unwrap();
    let (status, said, noted) = release.verify(&[&elsewhere.display().to_string(), "--sums", "SHA256SUMS"]);
    assert!(status == Some(10) && noted.contains("does not list apt/weaver-"), "{said}{noted}");
}

#[test]
fn a_file_that_is_called_like_the_key_does_not_stand_for_it() {
    let key = fs::read_to_string(format!("{FIXTURES}/owner.pub")).unwrap();
    let key = key.lines().nth(1).unwrap();
    let release = Release::with(|at| {
        // A key may have a slash.
        fs::create_dir_all(at.join(key).parent().unwrap()).unwrap();
        fs::copy(format!("{FIXTURES}/other.pub"), at.join(key)).unwrap();
    });
    let (status, said, noted) = release.verify(&[ARCHIVE, "--key", key]);
    assert!(status == Some(0) && said.contains("signed by the key 5816789DAE322018"), "{said}{noted}");
}

#[test]
fn an_older_release_is_not_the_one_that_is_wanted() {
    let owner = format!("{FIXTURES}/owner.pub");
    for (wanted, expected) in [
        ("0.2.0-rc.1", Some(0)),
        ("v0.2.0-rc.1", Some(0)),
        ("0.2.0", Some(10)),
        ("0.2.0-rc.10", Some(10)),
        ("", Some(10)),
    ] {
        let (status, said, noted) = Release::new().verify(&[ARCHIVE, "--key", &owner, "--release", wanted]);
        assert_eq!(status, expected, "{wanted:?}: {said}{noted}");
        let words = "it is of another release, signed as `Config Weaver 0.2.0-rc.1`, and ";
        assert!(status == Some(0) || said.is_empty() && noted.contains(words), "{said}{noted}");
    }
    let (status, _, noted) = Release::new().verify(&[ARCHIVE, "--release", "0.2.0-rc.1"]);
    assert!(
        status == Some(2) && noted.contains("--key"),
        "without a key anyone can say which it is: {noted}"
    );
}

#[test]
fn without_a_key_the_signature_is_said_not_to_be_checked() {
    let (status, said, noted) = Release::new().verify(&[ARCHIVE]);
    assert!(
        status == Some(0) && said.contains("as its SHA256SUMS says") && !said.contains("published"),
        "{said}"
    );
    assert!(noted.contains("The signature was not checked"), "{noted}");
}

#[test]
fn what_is_not_as_published_ends_with_10_and_the_reason() {
    let write =
        |name: &'static str, text: &'static str| move |at: &Path| fs::write(at.join(name), text).unwrap();
    let signature = |name: &'static str| {
        move |at: &Path| {
            fs::copy(format!("{FIXTURES}/{name}"), at.join("SHA256SUMS.minisig")).unwrap();
        }
    };
    let edited = |name: &'static str, from: &'static str, to: &'static str| {
        move |at: &Path| {
            let text = fs::read_to_string(at.join(name)).unwrap();
            assert!(text.contains(from), "{name}");
            fs::write(at.join(name), text.replace(from, to)).unwrap();
        }
    };
    let cases: Vec<(Change, &str, &str)> = vec![
        (Box::new(write(ARCHIVE, "a prog")), ARCHIVE, "it is cut off, changed or of another"),
        (Box::new(write(ARCHIVE, "a prog")), ".", "tar.gz: its SHA-256 is"),
        (Box::new(write("more", "x")), "more", "does not list more"),
        (Box::new(write("more", "x")), ".", "does not list more"),
        (Box::new(|at: &Path| fs::remove_file(at.join("apt/weaver.deb")).unwrap()), ".", "apt/weaver.deb"),
        (Box::new(signature("by-other.minisig")), ARCHIVE, "it is by the key"),
        (Box::new(signature("legacy.minisig")), ARCHIVE, "legacy signature"),
        (Box::new(write("SHA256SUMS.minisig", "untrusted comment: x\n")), ARCHIVE, "it is cut off"),
        (Box::new(edited("SHA256SUMS", "\n", "\r\n")), ARCHIVE, "does not match these bytes"),
        (Box::new(edited("SHA256SUMS", "tar.gz", "tgz")), ARCHIVE, "not match these bytes"),
        (Box::new(edited("provenance.intoto.json", "by-hand", "by-me")), ARCHIVE, "its SHA-256 is"),
    ];
    for (change, file, why) in cases {
        let (status, said, noted) = Release::with(change).signed(file);
        assert_eq!(status, Some(10), "{why}: {said}{noted}");
        assert!(noted.contains(why), "{why} is not in {noted}");
    }
    // Without a key, unsigned lists.
    let link = "2413fb3709b05939f04cf2e92f7d0897fc2596f9ad0b8a9ea855c7bfebaae892  ../../etc/passwd\n";
    for (change, why) in [
        (Box::new(write("SHA256SUMS", link)) as Change, "line 1: `../../etc/passwd` is not a path below"),
        (Box::new(write("SHA256SUMS", "")), "it is empty"),
        (Box::new(edited("SHA256SUMS", "\n", "\r\n")), "CR LF"),
        (Box::new(write("provenance.intoto.json", "{}")), "provenance.intoto.json"),
    ] {
        let (status, said, noted) = Release::with(change).verify(&[ARCHIVE]);
        assert!(status == Some(10) && noted.contains(why), "{why}: {said}{noted}");
    }
}

#[test]
fn what_could_not_be_checked_ends_with_1_and_what_is_missing() {
    let remove = |name: &'static str| move |at: &Path| fs::remove_file(at.join(name)).unwrap();
    let owner = format!("{FIXTURES}/owner.pub");
    for (name, arguments, why) in [
        (ARCHIVE, &[ARCHIVE, "--key", &owner][..], "cannot read weaver-0.2.0"),
        ("SHA256SUMS", &[ARCHIVE, "--key", &owner], "where is the list? pass --sums"),
        ("SHA256SUMS.minisig", &[ARCHIVE, "--key", &owner], "there is no SHA256SUMS.minisig"),
        ("apt/weaver.deb", &[ARCHIVE, "--key", "no-such.pub"], "neither an existing file nor"),
        ("apt/weaver.deb", &[ARCHIVE, "--key", "SHA256SUMS"], "has two lines, this file has 3"),
        ("apt/weaver.deb", &["SHA256SUMS"], "is the list itself"),
    ] {
        let (status, said, noted) = Release::with(remove(name)).verify(arguments);
        assert!(status == Some(1) && noted.contains(why), "{why}: {said}{noted}");
        assert!(!said.contains("as published"), "{said}");
    }
}
