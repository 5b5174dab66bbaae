//! Reads files that others may have written: those of a card, a report of another machine.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// A file of at most so many bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is larger than {} KiB", most >> 10)));
    }
    Ok(bytes)
}

pub fn text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_to_its_bound_and_no_further() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("user-data");
        std::fs::write(&path, "a".repeat(2_048)).unwrap();
        assert_eq!(read(&path, 2_048).unwrap().len(), 2_048);
        assert_eq!(text(&path, 2_047).unwrap_err().to_string(), "it is larger than 1 KiB");
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(text(&path, 2_048).unwrap_err().to_string(), "it is not text in UTF-8");
        let none = read(&directory.path().join("none"), 1).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
        // It has no end.
        #[cfg(unix)]
        assert!(read(Path::new("/dev/zero"), 1 << 20).is_err());
    }
}
