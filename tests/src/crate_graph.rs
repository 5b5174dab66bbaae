//! Which crate uses which, and which file uses which: arrows point one way, and no file imports in a circle.
//!
//! Read from the sources as they are, without the code of tests. A name that a module hands on (`pub use`) counts as an
//! import from the file that defines it, so that a `mod.rs` may offer what its children have.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

/// A file's module: its path from the crate's root.
type Module = Vec<String>;

/// What a module says by itself.
#[derive(Default)]
struct ModuleScope {
    file: PathBuf,
    children: BTreeSet<String>,
    items: BTreeSet<String>,
    /// Local name, and the path that it means.
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    /// Paths that its code uses.
    uses: BTreeSet<Vec<String>>,
}

struct CrateModules(BTreeMap<Module, ModuleScope>);

impl CrateModules {
    fn read(root: &Path) -> Self {
        let mut modules = BTreeMap::new();
        read_module(root, root.parent().unwrap(), Vec::new(), &mut modules);
        Self(modules)
    }

    /// The module whose item `path` names, seen from `from`; `None` for what another crate has.
    fn definition(&self, from: &Module, path: &[String], depth: usize) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        let (mut module, mut rest) = match first.as_str() {
            "crate" => (Vec::new(), rest),
            "self" => (from.clone(), rest),
            "super" => (from[..from.len().checked_sub(1)?].to_vec(), rest),
            name => {
                let scope = &self.0[from];
                let is_local = scope.children.contains(name) || scope.imports.contains_key(name);
                return if is_local { self.step(from.clone(), path, depth) } else { None };
            }
        };
        while rest.first().is_some_and(|name| name == "super") {
            module.pop();
            rest = &rest[1..];
        }
        self.step(module, rest, depth)
    }

    fn step(&self, module: Module, rest: &[String], depth: usize) -> Option<Module> {
        let scope = self.0.get(&module)?;
        let Some((name, rest)) = rest.split_first() else { return Some(module) };
        if scope.children.contains(name) {
            let child = [module, vec![name.clone()]].concat();
            return self.step(child, rest, depth);
        }
        // A name that is defined here, and one that is handed on by itself or by a glob.
        if scope.items.contains(name) || depth == 0 {
            return Some(module);
        }
        if let Some(import) = scope.imports.get(name) {
            let path = [import.clone(), rest.to_vec()].concat();
            return self.definition(&module, &path, depth - 1);
        }
        let defines = |glob: &Vec<String>| {
            let target = self.definition(&module, glob, depth - 1)?;
            let has = &self.0[&target];
            (has.items.contains(name) || has.imports.contains_key(name)).then_some((target, rest))
        };
        match scope.globs.iter().find_map(defines) {
            Some((target, _)) => self.step(target, &[vec![name.clone()], rest.to_vec()].concat(), depth - 1),
            None => Some(module),
        }
    }

    /// Each file, with the files that its code uses and a name of theirs that it uses.
    fn arrows(&self) -> BTreeMap<PathBuf, BTreeMap<PathBuf, String>> {
        let mut arrows: BTreeMap<PathBuf, BTreeMap<PathBuf, String>> = BTreeMap::new();
        for (module, scope) in &self.0 {
            let from = arrows.entry(scope.file.clone()).or_default();
            for path in &scope.uses {
                let Some(used) = self.definition(module, path, 8) else { continue };
                let file = &self.0[&used].file;
                if *file != scope.file {
                    from.entry(file.clone()).or_insert_with(|| path.join("::"));
                }
            }
        }
        arrows
    }
}

fn read_module(file: &Path, folder: &Path, module: Module, into: &mut BTreeMap<Module, ModuleScope>) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    read_items(&parsed.items, file, folder, module, into);
}

fn read_items(
    items: &[Item],
    file: &Path,
    folder: &Path,
    module: Module,
    into: &mut BTreeMap<Module, ModuleScope>,
) {
    let mut scope = ModuleScope { file: file.to_owned(), ..ModuleScope::default() };
    for item in items {
        match item {
            Item::Mod(inner) if !is_test(&inner.attrs) => {
                let name = inner.ident.to_string();
                scope.children.insert(name.clone());
                let child = [module.clone(), vec![name.clone()]].concat();
                let inside = folder.join(&name);
                if let Some((_, items)) = &inner.content {
                    read_items(items, file, &inside, child, into);
                } else {
                    let flat = folder.join(format!("{name}.rs"));
                    let file = if flat.exists() { flat } else { inside.join("mod.rs") };
                    read_module(&file, &inside, child, into);
                }
            }
            Item::Use(item) if !is_test(&item.attrs) => {
                let is_offered = !matches!(item.vis, syn::Visibility::Inherited);
                import(&item.tree, &mut Vec::new(), is_offered, &mut scope);
            }
            item => {
                scope.items.extend(name_of(item));
                Uses(&mut scope.uses).visit_item(item);
            }
        }
    }
    into.insert(module, scope);
}

fn import(tree: &UseTree, path: &mut Vec<String>, is_offered: bool, scope: &mut ModuleScope) {
    let mut named = |path: Vec<String>, name: String| {
        // What is handed on is used by those who import it from here.
        if !is_offered {
            scope.uses.insert(path.clone());
        }
        scope.imports.insert(name, path);
    };
    match tree {
        UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            import(&inner.tree, path, is_offered, scope);
            path.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            named(path.clone(), path.last().cloned().unwrap_or_default());
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            named([path.clone(), vec![name.clone()]].concat(), name);
        }
        UseTree::Rename(inner) => {
            named([path.clone(), vec![inner.ident.to_string()]].concat(), inner.rename.to_string());
        }
        UseTree::Glob(_) => {
            if !is_offered {
                scope.uses.insert(path.clone());
            }
            scope.globs.push(path.clone());
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                import(tree, path, is_offered, scope);
            }
        }
    }
}

fn name_of(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        _ => return None,
    })
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string().contains("test"))
    })
}

/// The paths that code uses, those in the tokens of a macro's call included.
struct Uses<'a>(&'a mut BTreeSet<Vec<String>>);

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() && path.segments.len() > 1 {
            self.0.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }
}

impl Uses<'_> {
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        let mut end = |path: &mut Vec<String>| {
            if path.len() > 1 {
                self.0.insert(std::mem::take(path));
            }
            path.clear();
        };
        let mut groups = Vec::new();
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        end(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                other => {
                    end(&mut path);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        groups.push(group.stream());
                    }
                }
            }
        }
        end(&mut path);
        for group in groups {
            self.tokens(group);
        }
    }
}

/// The files that can be reached from themselves, each group with the arrows within it.
fn circles(arrows: &BTreeMap<PathBuf, BTreeMap<PathBuf, String>>) -> Vec<Vec<String>> {
    let reach = |from: &PathBuf| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(file) = open.pop() {
            for next in arrows.get(file).into_iter().flat_map(BTreeMap::keys) {
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> =
        arrows.keys().map(|file| (file, reach(file))).collect();
    let mut groups: BTreeSet<BTreeSet<&PathBuf>> = BTreeSet::new();
    for (file, others) in &reached {
        let group: BTreeSet<&PathBuf> = others
            .iter()
            .filter(|other| reached.get(**other).is_some_and(|back| back.contains(file)))
            .copied()
            .collect();
        if !group.is_empty() {
            groups.insert(group);
        }
    }
    let reported = |group: &BTreeSet<&PathBuf>| {
        let arrows = group.iter().flat_map(|file| arrows[*file].iter().map(move |arrow| (file, arrow)));
        let within = arrows.filter(|(_, (to, _))| group.contains(to));
        within
            .map(|(from, (to, name))| format!("{} uses {name} of {}", from.display(), to.display()))
            .collect()
    };
    groups.iter().map(reported).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Each package of the workspace: its name, and its folder.
fn packages() -> Vec<(String, PathBuf, toml_edit::DocumentMut)> {
    let read = |path: &Path| -> toml_edit::DocumentMut { fs::read_to_string(path).unwrap().parse().unwrap() };
    let workspace = read(&root().join("Cargo.toml"));
    let members = workspace["workspace"]["members"].as_array().unwrap();
    members
        .iter()
        .map(|member| {
            let folder = root().join(member.as_str().unwrap());
            let manifest = read(&folder.join("Cargo.toml"));
            (manifest["package"]["name"].as_str().unwrap().to_owned(), folder, manifest)
        })
        .collect()
}

/// The arrows of the picture of the crates in docs/explanation/architecture.md, as Graphviz writes them into it.
fn drawn() -> BTreeSet<String> {
    let picture = fs::read_to_string(root().join("docs/images/crates.svg")).unwrap();
    let titles = picture.split("<title>").skip(1).filter_map(|rest| rest.split_once("</title>"));
    let titles = titles.map(|(title, _)| title.replace("&#45;", "-"));
    titles
        .filter_map(|title| title.split_once("-&gt;").map(|(from, to)| format!("{from} --> {to}")))
        .collect()
}

#[test]
fn the_crates_use_each_other_as_the_picture_of_the_architecture_shows() {
    let (mut arrows, mut programs) = (BTreeSet::new(), BTreeSet::new());
    for (name, folder, manifest) in packages() {
        // What tests, and the image's build, may use whatever it needs.
        let relative = folder.strip_prefix(root()).unwrap();
        if relative.starts_with("tests") || relative.starts_with("image") {
            continue;
        }
        if folder.join("src/main.rs").exists() {
            programs.insert(name.clone());
        }
        let dependencies = manifest.get("dependencies").and_then(toml_edit::Item::as_table);
        let used = dependencies.into_iter().flat_map(|table| table.iter().map(|(key, _)| key));
        arrows
            .extend(used.filter(|used| used.starts_with("weaver-")).map(|used| format!("{name} --> {used}")));
    }
    assert_eq!(drawn(), arrows, "change docs/images/crates.dot, whose head says how to draw it");
    let of_programs: Vec<&String> = arrows
        .iter()
        .filter(|arrow| programs.iter().any(|program| arrow.ends_with(&format!("> {program}"))))
        .collect();
    assert_eq!(of_programs, [""; 0], "a program is used by no other crate");
}

#[test]
fn no_file_imports_in_a_circle() {
    let mut found = Vec::new();
    for (_, folder, _) in packages() {
        for name in ["src/lib.rs", "src/main.rs"] {
            let file = folder.join(name);
            if file.exists() {
                found.extend(circles(&CrateModules::read(&file).arrows()));
            }
        }
    }
    let reported: Vec<String> = found.iter().map(|circle| circle.join("\n  ")).collect();
    let reported = reported.join("\n\n  ").replace(&format!("{}/", root().display()), "");
    assert!(found.is_empty(), "{} circles of files:\n  {reported}", found.len());
}
