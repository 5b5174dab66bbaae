//! What takes the space on the card: Debian's packages as dpkg counts them, and what is in no package.

use super::bars::Bar;

/// Bytes of something on the card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartSize {
    pub name: String,
    pub bytes: u64,
    /// Whether it is something of ours.
    pub ours: bool,
}

/// The packages that dpkg's `status` has as installed.
pub fn packages(status: &str) -> Vec<PartSize> {
    let package = |entry: &str| {
        let field = |key: &str| entry.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let installed = field("Status:")? == "install ok installed";
        let kib: u64 = field("Installed-Size:").and_then(|size| size.parse().ok()).unwrap_or(0);
        installed
            .then(|| Some(PartSize { name: field("Package:")?.to_owned(), bytes: kib << 10, ours: false }))?
    };
    status.split("\n\n").filter_map(package).collect()
}

/// The `most` largest, the largest first, and the sum of the rest.
pub fn largest(mut parts: Vec<PartSize>, most: usize) -> Vec<Bar> {
    parts.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    let rest = parts.split_off(most.min(parts.len()));
    if !rest.is_empty() {
        let name = format!("{} others", rest.len());
        parts.push(PartSize { name, bytes: rest.iter().map(|part| part.bytes).sum(), ours: false });
    }
    parts.into_iter().map(bar).collect()
}

fn bar(PartSize { name, bytes, ours }: PartSize) -> Bar {
    let tenths = u32::try_from((bytes * 10) >> 20).unwrap_or(u32::MAX);
    let mib = f64::from(tenths) / 10.0;
    Bar { name, span: (0.0, mib), label: format!("{mib:.1}"), ours }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Package: linux-image\nStatus: install ok installed\nInstalled-Size: 102400\n\n\
        Package: gone\nStatus: deinstall ok config-files\nInstalled-Size: 9\n\n\
        Package: meta\nStatus: install ok installed\n\n\
        Package: zlib\nStatus: install ok installed\nInstalled-Size: 1536\nDescription: has a\n Package: in it\n";

    #[test]
    fn what_is_installed_counts_and_what_was_removed_does_not() {
        let found = packages(STATUS);
        let names: Vec<_> = found.iter().map(|part| (part.name.as_str(), part.bytes)).collect();
        assert_eq!(names, [("linux-image", 100 << 20), ("meta", 0), ("zlib", 1536 << 10)]);
    }

    #[test]
    fn the_largest_come_first_and_the_rest_is_summed() {
        let mut parts = packages(STATUS);
        parts.push(PartSize { name: "weaver".into(), bytes: 9 << 20, ours: true });
        let seen: Vec<_> =
            largest(parts.clone(), 2).into_iter().map(|bar| (bar.name, bar.label, bar.ours)).collect();
        let bar = |name: &str, label: &str, ours| (name.to_owned(), label.to_owned(), ours);
        let expected =
            [bar("linux-image", "100.0", false), bar("weaver", "9.0", true), bar("2 others", "1.5", false)];
        assert_eq!(seen, expected);
        assert_eq!(largest(parts, 9).len(), 4);
    }
}
