//! Single commands of pages whose others are typed elsewhere: with directories in place of other machines.

use std::process::{Command, Stdio};

use weaver_api::template;

/// The packages of `make deb`, and a Pi.
const A_PI: &str = r#"
mkdir out pi
for name in weaver_0.1.0_amd64 weaver_0.1.0_arm64 config-weaver_0.1.0_amd64 config-weaver_0.1.0_arm64 \
  config-weaver-card_0.1.0_all
do
  touch out/$name.deb
done
scp() { while test $# -gt 1; do cp "$1" pi; shift; done; test "$1" = pi@raspi.lan:; }
"#;

/// A repository of one version, and a web server with the one before. Files go there one by one, in the order of their
/// names; after each, the server has every package that its list names.
const A_WEB_SERVER: &str = r#"
mkdir -p out/apt/pool out/apt/dists www/pool www/dists
touch www/pool/weaver_0.1.0.deb out/apt/pool/weaver_0.2.0.deb out/apt/config-weaver.asc
echo pool/weaver_0.1.0.deb > www/dists/Packages
echo pool/weaver_0.2.0.deb > out/apt/dists/Packages
rsync() {
  test "$1" = -a; shift
  after=no
  test "$1" != --delete-after || { after=yes; shift; }
  while test $# -gt 1; do
    for file in "$1"*; do
      cp -r "$file" www
      (cd www; xargs ls < dists/Packages)
    done
    shift
  done
  test "$1" = web.example.com:/srv/www/apt/
  test $after = no || (cd www; find . -type f -exec sh -c 'test -e "../out/apt/$1" || rm "$1"' - {} ';')
}
"#;

/// In a directory of its own; what it printed.
fn typed(script: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\nset -e\n{script}")])
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{script}\n{said}");
    said
}

#[test]
fn the_two_packages_of_a_pi_are_copied_there() {
    let copied = "
scp out/weaver_*_arm64.deb out/config-weaver_*_arm64.deb pi@raspi.lan:
ls pi
";
    assert_eq!(typed(&[A_PI, copied].concat()), "config-weaver_0.1.0_arm64.deb\nweaver_0.1.0_arm64.deb\n");
}

#[test]
fn a_repository_is_copied_so_that_no_list_is_ahead_of_its_packages() {
    let copied = "
rsync -a out/apt/pool out/apt/config-weaver.asc web.example.com:/srv/www/apt/
rsync -a --delete-after out/apt/ web.example.com:/srv/www/apt/
diff -r out/apt www
";
    typed(&[A_WEB_SERVER, copied].concat());
}

#[test]
fn a_shell_computes_the_hash_of_a_template() {
    let said = typed("printf '%s' team-g/bots/7 | sha256sum | cut -c1-8");
    assert_eq!(said.trim_end(), template::hash("team-g/bots", 7));
}
