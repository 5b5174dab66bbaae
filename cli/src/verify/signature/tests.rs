//! Signatures that minisign 0.11 made.

use super::*;

const SIGNED: &str = include_str!("../../../tests/fixtures/release/SHA256SUMS");
/// Two key files, whose secret keys were deleted.
const KEY_FILE: &str = include_str!("../../../tests/fixtures/owner.pub");
const OTHER_KEY: &str = include_str!("../../../tests/fixtures/other.pub");
/// By the first key, by the second, and by the first with `-l`.
const GOOD: &str = include_str!("../../../tests/fixtures/release/SHA256SUMS.minisig");
const BY_ANOTHER: &str = include_str!("../../../tests/fixtures/by-other.minisig");
const LEGACY: &str = include_str!("../../../tests/fixtures/legacy.minisig");

const COMMENT: &str = "Config Weaver 0.2.0-rc.1";

fn refused(signature: &str, signed: &str, why: &str) {
    let said = check(&key(KEY_FILE).unwrap(), signature, signed.as_bytes()).unwrap_err().to_string();
    assert!(said.contains(why), "{signature}: {said}");
}

#[test]
fn a_signature_by_the_key_says_what_was_signed_with_it() {
    let read = key(KEY_FILE).unwrap();
    assert_eq!(read.id, "5816789DAE322018", "as minisign prints it");
    assert_eq!(check(&read, GOOD, SIGNED.as_bytes()).unwrap(), COMMENT);
    // The line breaks of the signature itself do not matter.
    assert_eq!(check(&read, &GOOD.replace('\n', "\r\n"), SIGNED.as_bytes()).unwrap(), COMMENT);
    assert!(check(&key(OTHER_KEY).unwrap(), BY_ANOTHER, SIGNED.as_bytes()).is_ok());
}

#[test]
fn what_is_not_signed_by_the_key_is_refused_with_the_reason() {
    refused(BY_ANOTHER, SIGNED, "it is by the key 9F419ADC5A1E1CBE, and yours is 5816789DAE322018");
    refused(LEGACY, SIGNED, "legacy signature");
    refused(GOOD, &SIGNED.replace('2', "3"), "does not match these bytes");
    refused(GOOD, &SIGNED.replace('\n', "\r\n"), "does not match these bytes");
    refused(GOOD, "", "does not match these bytes");
    refused(&GOOD.replace("0.2.0", "0.3.0"), SIGNED, "does not match these bytes");
    // A legacy one that pretends to be none.
    refused(&LEGACY.replace("\nRW", "\nRU"), SIGNED, "does not match these bytes");
    refused("", SIGNED, "4 lines, this one 0");
    refused(GOOD.rsplit_once("\ntrusted").unwrap().0, SIGNED, "4 lines, this one 2");
    refused(&GOOD[..GOOD.len() - 9], SIGNED, "not a minisign signature");
    refused(&GOOD.replace("\nRU", "\nSU"), SIGNED, "algorithm");
    refused(&GOOD.replace("\ntrusted", "\nuntrusted"), SIGNED, "not a minisign signature");
    refused(
        "-----BEGIN PGP SIGNATURE-----\n\nx\n-----END PGP SIGNATURE-----\n",
        SIGNED,
        "of another program",
    );
    refused("<html>\n<body>\nnot found\n</body>\n", SIGNED, "not a minisign signature");
}

#[test]
fn a_key_is_a_file_of_minisign_or_its_second_line() {
    let line = KEY_FILE.lines().nth(1).unwrap();
    for text in [line, &format!("{line}\n"), &KEY_FILE.replace('\n', "\r\n")] {
        assert_eq!(key(text).unwrap().id, "5816789DAE322018", "{text:?}");
    }
    let cut = &KEY_FILE[..KEY_FILE.len() - 9];
    for (text, why) in [
        ("", "two lines, this file has 0"),
        (cut, "is not a minisign public key"),
        ("hello", "`hello` is not a minisign public key"),
        ("untrusted comment: minisign encrypted secret key\nRWQAAEIy\n", "the secret key"),
        ("-----BEGIN PGP PUBLIC KEY BLOCK-----\nx\n", "of another program"),
        (GOOD, "two lines, this file has 4"),
    ] {
        let said = key(text).unwrap_err().to_string();
        assert!(said.contains(why), "{text:?}: {said}");
    }
}
