//! A crawler that is killed again and again, and each time resumes exactly where its frontier stood.
//!
//! ```sh
//! cargo run --release --example resume
//! ```
//!
//! The crawler keeps two things on disk: the URLs that it has seen, in a store, and the frontier, a file of URLs to fetch.
//! A kill may come between a change of one and of the other. If the store were ahead of the frontier, a page would count
//! as seen and never be fetched. So the store is transactional, and each commit carries a tag: how long the frontier is,
//! and where the next URL begins. After a kill, the store goes back to its last commit by itself. The crawler cuts the
//! frontier to the length in the tag, and goes on from there. Pages since that commit are fetched again; none is lost.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use everseen::{CreateOptions, Store};

/// Pages of the site.
const PAGES: u64 = 2_000;
/// Pages between two commits.
const COMMIT_EVERY: usize = 50;
/// The most pages before the next kill.
const MOST_BEFORE_KILL: u64 = 300;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [site, folder] => crawl(site.parse()?, Path::new(folder)),
        _ => kill_and_resume(),
    }
}

/// Crawls the whole site, from wherever an earlier crawler was killed.
fn crawl(site: SocketAddr, folder: &Path) -> Outcome<()> {
    let options = CreateOptions::new().transactional(true).fpr(1e-9);
    let store = options.open_or_create(folder.join("visited.ever"))?;
    let mut frontier = Frontier::open(&folder.join("frontier"), &store)?;
    discover(&store, &mut frontier, "/0")?;
    loop {
        for _ in 0..COMMIT_EVERY {
            let Some(url) = frontier.next()? else {
                frontier.commit(&store)?;
                store.close()?;
                return Ok(());
            };
            for link in fetch(site, &url)? {
                discover(&store, &mut frontier, &link)?;
            }
        }
        frontier.commit(&store)?;
    }
}

/// Adds a URL to the frontier, the first time that it is seen.
fn discover(store: &Store, frontier: &mut Frontier, url: &str) -> Outcome<()> {
    if store.insert(url.as_bytes())? {
        frontier.push(url)?;
    }
    Ok(())
}

/// URLs to fetch, one a line, in the order in which they were found.
struct Frontier {
    file: File,
    /// Bytes of the file that count.
    end: u64,
    /// Where the next URL begins.
    next: u64,
}

impl Frontier {
    /// Opens the frontier as it was at the store's last commit.
    fn open(path: &Path, store: &Store) -> Outcome<Self> {
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let (end, next) = match store.last_commit("default")? {
            Some(commit) => (number(&commit.tag, 0)?, number(&commit.tag, 8)?),
            None => (0, 0),
        };
        file.set_len(end)?;
        Ok(Self { file, end, next })
    }

    fn push(&mut self, url: &str) -> io::Result<()> {
        let line = format!("{url}\n");
        self.file.write_all_at(line.as_bytes(), self.end)?;
        self.end += line.len() as u64;
        Ok(())
    }

    fn next(&mut self) -> io::Result<Option<String>> {
        if self.next == self.end {
            return Ok(None);
        }
        let mut bytes = [0; 64];
        let length = self.file.read_at(&mut bytes, self.next)?;
        let line = bytes[..length]
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or(&[]);
        self.next += line.len() as u64 + 1;
        Ok(Some(String::from_utf8_lossy(line).into_owned()))
    }

    /// Makes the frontier durable first, and then the store, with the frontier's state as its tag.
    fn commit(&mut self, store: &Store) -> Outcome<()> {
        self.file.sync_data()?;
        let tag = [self.end.to_le_bytes(), self.next.to_le_bytes()].concat();
        store.commit_with(&tag)?;
        Ok(())
    }
}

fn number(tag: &[u8], at: usize) -> Outcome<u64> {
    let bytes = tag.get(at..at + 8).ok_or("a tag of another program")?;
    Ok(u64::from_le_bytes(bytes.try_into()?))
}

/// Fetches a page, and returns its links.
fn fetch(site: SocketAddr, url: &str) -> io::Result<Vec<String>> {
    let mut connection = TcpStream::connect(site)?;
    write!(connection, "GET {url} HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    connection.read_to_string(&mut text)?;
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok(body.lines().map(str::to_owned).collect())
}

/// Serves a site on the loopback device, kills each crawler after some pages, and counts what they fetched.
fn kill_and_resume() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let site = listener.local_addr()?.to_string();
    let mut fetched = BTreeMap::<u64, u64>::new();
    let (mut kills, mut random) = (0, 1_u64);
    loop {
        let mut crawler = Command::new(std::env::current_exe()?);
        let mut crawler = crawler.arg(&site).arg(folder.path()).spawn()?;
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let mut left = 1 + (random >> 33) % MOST_BEFORE_KILL;
        let status = loop {
            listener.set_nonblocking(true)?;
            match listener.accept() {
                Ok((connection, _)) if left > 0 => {
                    left -= 1;
                    // A crawler that was killed meanwhile can't hear the answer.
                    if let Ok(page) = serve(connection) {
                        *fetched.entry(page).or_default() += 1;
                    }
                }
                Ok(_) => {
                    kills += 1;
                    crawler.kill()?;
                    break crawler.wait()?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Some(status) = crawler.try_wait()? {
                        break status;
                    }
                    std::thread::yield_now();
                }
                Err(error) => return Err(error.into()),
            }
        };
        if status.success() {
            break;
        }
    }
    let twice = fetched.values().filter(|times| **times > 1).count();
    println!(
        "{} of {PAGES} pages, {kills} kills, {twice} pages fetched more than once",
        fetched.len()
    );
    if fetched.len() as u64 != PAGES || kills == 0 {
        return Err("a page was lost, or no crawler was killed".into());
    }
    Ok(())
}

/// Answers one request with the links of its page: to two pages further on, and to one anywhere.
fn serve(connection: TcpStream) -> Outcome<u64> {
    connection.set_nonblocking(false)?;
    let mut request = String::new();
    let mut reader = BufReader::new(&connection);
    reader.read_line(&mut request)?;
    let page = request
        .split(' ')
        .nth(1)
        .and_then(|url| url.strip_prefix('/'));
    let page: u64 = page.ok_or("no path")?.parse()?;
    // The rest of the request, up to its empty line.
    while reader.read_line(&mut String::new())? > 2 {}
    let links =
        [2 * page + 1, 2 * page + 2, page * 7 + 3].map(|link| format!("/{}\n", link % PAGES));
    write!(&connection, "HTTP/1.0 200 OK\r\n\r\n{}", links.concat())?;
    Ok(page)
}
