//! What differs between the systems of laptops in what a user types: the file of names, and who may change it.

use crate::shell::quoted;

/// The system of a laptop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    Linux,
    MacOs,
    Windows,
}

impl System {
    /// That of this program.
    pub const HERE: Self = if cfg!(windows) {
        Self::Windows
    } else if cfg!(target_os = "macos") {
        Self::MacOs
    } else {
        Self::Linux
    };

    /// The file of names and addresses.
    pub const fn hosts_file(self) -> &'static str {
        match self {
            Self::Linux | Self::MacOs => "/etc/hosts",
            Self::Windows => r"C:\Windows\System32\drivers\etc\hosts",
        }
    }

    /// The command that adds a line to it.
    pub fn add_name(self, line: &str) -> String {
        match self {
            Self::Linux | Self::MacOs => format!("echo '{line}' | sudo tee -a /etc/hosts"),
            Self::Windows => {
                format!("Add-Content {} '{line}'   # in a PowerShell of an administrator", self.hosts_file())
            }
        }
    }

    /// The command that shows what a name resolves to.
    pub fn resolve(self, name: &str) -> String {
        let name = quoted(name);
        match self {
            Self::Linux => format!("getent hosts {name}"),
            Self::MacOs => format!("dscacheutil -q host -a name {name}"),
            Self::Windows => format!("Resolve-DnsName {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_added_and_resolved_by_what_the_system_has() {
        for (system, add, resolve) in [
            (System::Linux, "echo '10.0.0.2 pi' | sudo tee -a /etc/hosts", "getent hosts pi"),
            (System::MacOs, "echo '10.0.0.2 pi' | sudo tee -a /etc/hosts", "dscacheutil -q host -a name pi"),
            (
                System::Windows,
                r"Add-Content C:\Windows\System32\drivers\etc\hosts '10.0.0.2 pi'   # in a PowerShell of an administrator",
                "Resolve-DnsName pi",
            ),
        ] {
            assert_eq!((&*system.add_name("10.0.0.2 pi"), &*system.resolve("pi")), (add, resolve));
        }
    }
}
