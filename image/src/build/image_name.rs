//! The name of an image, so that an image that is not a release is not mistaken for one.

use super::debian_kernel::DebianKernel;
use crate::k3s::Variant;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName {
    /// `config-weaver-VERSION[-VARIANT]-arm64`, of its files.
    pub stem: String,
    /// `VARIANT_ID` of os-release, and the text on the console and in Imager; a release has none.
    pub variant: Option<(String, String)>,
    /// The boards that it is for, as Imager names them.
    pub devices: Vec<&'static str>,
}

impl ImageName {
    /// From the content of the image.
    pub fn of(k3s: Variant, kernel: DebianKernel) -> Self {
        let joined = |parts: [Option<&str>; 2], between: &str| {
            let parts: Vec<_> = parts.into_iter().flatten().collect();
            (!parts.is_empty()).then(|| parts.join(between))
        };
        let id = joined([k3s.id(), kernel.id()], "-");
        let spoken = joined([k3s.spoken(), kernel.spoken()], "; ");
        let part = id.as_ref().map(|id| format!("-{id}")).unwrap_or_default();
        let stem = format!("config-weaver-{}{part}-arm64", env!("CARGO_PKG_VERSION"));
        Self { stem, variant: id.zip(spoken), devices: kernel.devices() }
    }

    /// The text on the console and in Imager.
    pub fn spoken(&self) -> Option<&str> {
        self.variant.as_ref().map(|(_, spoken)| spoken.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_release_says_so_in_every_name() {
        for (k3s, kernel, id) in [
            (Variant::Release, DebianKernel::Trixie, None),
            (Variant::Test, DebianKernel::Trixie, Some("test")),
            (Variant::Release, DebianKernel::Backports, Some("experimental-pi5")),
            (Variant::Test, DebianKernel::Backports, Some("test-experimental-pi5")),
        ] {
            let named = ImageName::of(k3s, kernel);
            assert_eq!(named.variant.as_ref().map(|(id, _)| id.as_str()), id);
            assert_eq!(named.spoken().is_some(), id.is_some());
            let part = id.map(|id| format!("-{id}")).unwrap_or_default();
            assert!(named.stem.ends_with(&format!("{}{part}-arm64", env!("CARGO_PKG_VERSION"))), "{named:?}");
            assert_eq!(named.devices.contains(&"pi5-64bit"), kernel == DebianKernel::Backports);
        }
        let both = ImageName::of(Variant::Test, DebianKernel::Backports);
        assert!(
            both.spoken().is_some_and(|said| said.contains("TEST IMAGE") && said.contains("EXPERIMENTAL"))
        );
    }
}
