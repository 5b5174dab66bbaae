//! What the first bytes of a file say of it: a program for this machine's processor, or why not.

/// So many bytes of a file tell.
pub const HEAD: usize = 20;

/// Whether a program that begins so runs on `architecture`, as Rust names it.
///
/// # Errors
/// What it is instead.
pub fn judge(head: &[u8], architecture: &str) -> Result<(), String> {
    let whole = head.first_chunk::<HEAD>().filter(|head| head.starts_with(b"\x7fELF"));
    let Some(elf) = whole else {
        return Err(format!("it is {}, not a program", resemblance(head)));
    };
    // Of another byte order the other fields read otherwise, and no k3s is.
    let found = match (elf[4], elf[5], u16::from_le_bytes([elf[18], elf[19]])) {
        (2, 1, 183) => "aarch64".to_owned(),
        (2, 1, 62) => "x86_64".to_owned(),
        (1, 1, 40) => "32-bit arm".to_owned(),
        (.., machine) => format!("ELF machine {machine}"),
    };
    if found != architecture {
        return Err(format!("it is for {found}, and this machine is {architecture}"));
    }
    // Executable, or executable wherever it is loaded.
    if matches!(elf[16], 2 | 3) { Ok(()) } else { Err("it is an ELF file, but not a program".to_owned()) }
}

/// What a user most likely named by mistake.
fn resemblance(head: &[u8]) -> &'static str {
    match head {
        [] => "empty",
        [0x7f, b'E', b'L', b'F', ..] => "cut off",
        [b'#', b'!', ..] => "a script",
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0xfd, b'7', b'z', ..] => "a compressed archive",
        [b'<', ..] => "a web page",
        _ => "something else",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn elf(class: u8, kind: u8, machine: u8) -> Vec<u8> {
        let mut head = b"\x7fELF".to_vec();
        head.extend([class, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, kind, 0, machine, 0]);
        head
    }

    #[test]
    fn a_program_is_known_by_its_header() {
        for (head, want) in [
            (elf(2, 2, 183), Ok(())),
            (elf(2, 3, 183), Ok(())),
            (elf(2, 1, 183), Err("it is an ELF file, but not a program")),
            (elf(2, 2, 62), Err("it is for x86_64, and this machine is aarch64")),
            (elf(1, 2, 40), Err("it is for 32-bit arm, and this machine is aarch64")),
            (elf(2, 2, 243), Err("it is for ELF machine 243, and this machine is aarch64")),
            (elf(2, 2, 183)[..19].to_vec(), Err("it is cut off, not a program")),
            (b"#!/bin/sh\nexec k3s-arm64\n".to_vec(), Err("it is a script, not a program")),
            (b"<!DOCTYPE html><html>..".to_vec(), Err("it is a web page, not a program")),
            (vec![0x1f, 0x8b, 8, 0], Err("it is a compressed archive, not a program")),
            (b"MZ".to_vec(), Err("it is something else, not a program")),
            (Vec::new(), Err("it is empty, not a program")),
        ] {
            let head = &head[..head.len().min(HEAD)];
            assert_eq!(judge(head, "aarch64"), want.map_err(str::to_owned), "{head:?}");
        }
        assert_eq!(judge(&elf(2, 3, 62), "x86_64"), Ok(()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(head in proptest::collection::vec(any::<u8>(), 0..HEAD + 4)) {
            let _ = judge(&head[..head.len().min(HEAD)], "aarch64");
        }
    }
}
