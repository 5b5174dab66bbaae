//! Cards: what a run changes on them, and that the image stays as it is.

use std::fs;

use weaver_image::boot::card::{Card, Edits};

use super::cards::{CONFIG, CardImage, MIB, Then, kernel, no_key, text};

#[test]
fn a_card_gets_key_names_and_files_and_the_image_none() {
    let image = CardImage::good(&kernel("", Then::PowerOff));
    image.write("weaver.toml", b"# mine\n[api]\nnames = [\"raspi.lan\"]\n");
    let before = fs::read(image.path()).unwrap();
    let edits = Edits {
        names: vec!["pi.test".to_owned()],
        files: vec![("cmdline.txt".to_owned(), b"root=other\n".to_vec())],
        ..Edits::default()
    };
    let card = image.card(&edits);
    let fat = card.overlay().extract_fat(&card.dir().join("fat")).unwrap();
    let toml = text(fat.read("weaver.toml").unwrap());
    assert!(toml.starts_with("# mine\n[api]\nnames = [\"pi.test\", \"raspi.lan\"]\n"), "{toml}");
    assert!(toml.contains(&format!("[ssh]\nkeys = [\"{}\"]", card.key().public().unwrap())), "{toml}");
    assert_eq!(text(fat.read("/CMDLINE.TXT").unwrap()), "root=other\n");
    assert_eq!(text(fat.read("config.txt").unwrap()), CONFIG);
    assert_eq!(fat.read("none").unwrap(), None);
    assert_eq!(fs::read(image.path()).unwrap(), before, "the image was written");
    let dir = card.dir().to_owned();
    drop(card);
    assert!(!dir.exists(), "{} was left behind", dir.display());
}

#[test]
fn what_does_not_fit_on_the_card_is_an_error_and_changes_nothing() {
    let image = CardImage::good(&kernel("", Then::PowerOff));
    let files = vec![("big".to_owned(), vec![1; 9 << 20])];
    let error = Card::new(&image.path(), 64 * MIB, &Edits { files, ..Edits::default() }).unwrap_err();
    assert!(format!("{error:#}").contains("cannot write big to the card"), "{error:#}");
}

#[test]
fn a_card_smaller_than_its_image_is_refused() {
    let image = CardImage::good(&kernel("", Then::PowerOff));
    let error = format!("{:#}", Card::new(&image.path(), 4 * MIB, &no_key()).unwrap_err());
    assert!(error.contains("a card of 4 MiB is too small") && error.contains("needs 10 MiB"), "{error}");
}

#[test]
fn a_kept_card_is_used_again_until_its_image_changes() {
    let image = CardImage::good(&kernel("", Then::PowerOff));
    let dir = tempfile::tempdir().unwrap();
    let card = Card::in_dir(dir.path(), &image.path(), 64 * MIB, &no_key()).unwrap();
    assert!(card.is_fresh());
    card.overlay().edit_fat(|fat| fat.write("note", b"kept")).unwrap();
    let card = Card::in_dir(dir.path(), &image.path(), 64 * MIB, &no_key()).unwrap();
    assert!(!card.is_fresh());
    let fat = card.overlay().extract_fat(&dir.path().join("fat")).unwrap();
    assert_eq!(text(fat.read("note").unwrap()), "kept");
    fs::OpenOptions::new().write(true).open(image.path()).unwrap().set_len(11 * MIB).unwrap();
    let error = Card::in_dir(dir.path(), &image.path(), 64 * MIB, &no_key()).unwrap_err().to_string();
    assert!(error.contains("made from another image"), "{error}");
}

#[test]
fn the_guests_key_is_the_cards_own() {
    let image = CardImage::good(&kernel("", Then::PowerOff));
    let (one, two) = (image.card(&Edits::default()), image.card(&Edits::default()));
    assert_ne!(one.key().public().unwrap(), two.key().public().unwrap());
}
