//! The formula by which Homebrew installs the command line.

use std::fmt::Write as _;

use super::archive::Archive;

/// Systems and processors, as Go and as Homebrew call them.
const SYSTEMS: [(&str, &str); 2] = [("darwin", "on_macos"), ("linux", "on_linux")];
const PROCESSORS: [(&str, &str); 2] = [("amd64", "on_intel"), ("arm64", "on_arm")];

/// The formula, where there is an archive for a system of Homebrew's.
pub fn formula(version: &str, url: &str, archives: &[Archive]) -> Option<String> {
    let mut systems = String::new();
    for (os, on_system) in SYSTEMS {
        let mut processors = String::new();
        for (architecture, on_processor) in PROCESSORS {
            let fits = |archive: &&Archive| archive.os == os && archive.architecture == architecture;
            if let Some(Archive { name, sha256, .. }) = archives.iter().find(fits) {
                let _ = write!(
                    processors,
                    "    {on_processor} do\n      url \"{url}/{name}\"\n      sha256 \"{sha256}\"\n    end\n"
                );
            }
        }
        if !processors.is_empty() {
            let _ = write!(systems, "  {on_system} do\n{processors}  end\n\n");
        }
    }
    (!systems.is_empty()).then(|| {
        format!(
            r##"class Weaver < Formula
  desc "Check, configure and operate Config Weaver"
  homepage "{url}"
  version "{version}"
  license "Apache-2.0"

{systems}  def install
    bin.install "weaver"
    man1.install Dir["man/man1/*"]
    bash_completion.install "completions/bash/weaver"
    zsh_completion.install "completions/zsh/_weaver"
    fish_completion.install "completions/fish/weaver.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/weaver --version")
  end
end
"##
        )
    })
}
