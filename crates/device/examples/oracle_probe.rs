#[path = "../tests/oracle/mod.rs"]
mod oracle;
use evenkeel_device::disk::{Disk, Parameters, parameters::Policy};
use oracle::*;
use std::path::Path;
fn main() {
    let root = std::env::var("EVENKEEL_ORACLES").unwrap();
    let root = Path::new(&root);
    let only = std::env::args().nth(1).unwrap_or_default();
    for (file, name) in [("cheetah9lp", "cheetah9LP"), ("ibm18es", "ibm18es"), ("ibm36z15approx", "ibm36z15approx"), ("atlas-iii","atlas_III"),("barracuda","barracuda"),("cheetah4lp","cheetah4LP")] {
        let text = std::fs::read_to_string(format!("devices/{file}.toml")).unwrap();
        let p = Parameters::parse(&text).unwrap_or_else(|e| panic!("{file} {e}"));
        for run in ["rr4k_qd1_nocache","rw4k_qd1_nocache","mix64k_qd1_nocache","open4k_r60_nocache","seq64k_qd1_nocache_fastbus","rr4k_qd1_stock","seq64k_qd1_stock","seq64k_qd1_stock_fastbus","seq64k_qd1_almosthits_fastbus","rr4k_qd16_sstflbn_nocache","rr4k_qd16_clooklbn_nocache","rr4k_qd16_sstfcyl_nocache_WDengine","jbod16_rr4k_qd64_nocache"] {
            if !run.contains(&only) { continue; }
            let path = root.join(format!("outputs/{name}_{run}.csv.gz"));
            if !path.exists() { continue; }
            let reqs = simulated(&path);
            let mut q = if run.contains("nocache") { without_cache(&p) } else { p.clone() };
            if run.contains("fastbus") || run.contains("64k") && run.contains("nocache") { q.bus.sector_ns = 3200; }
            if run.contains("almosthits") { q.cache.almost_read_hits = true; }
            if run.contains("sstf") { q.queue.policy = Policy::Sstf }
            if run.contains("clook") { q.queue.policy = Policy::CLook }
            let theirs: Vec<u64> = reqs.iter().map(|r| r.response).collect();
            let ours: Vec<u64>;
            let mut end = 0;
            if run.contains("open") { ours = open(&q, &reqs); }
            else {
                let depth = if run.contains("qd16") {16} else if run.contains("qd64") {64} else {1};
                let n = reqs.iter().map(|r| r.device).max().unwrap() + 1;
                let mut disks: Vec<Disk> = (0..n).map(|_| Disk::new(&q).unwrap()).collect();
                let r = closed(&mut disks, &reqs, depth);
                end = r.iter().map(|x| x.0+x.1).max().unwrap();
                ours = r.into_iter().map(|x| x.1).collect();
            }
            let m = mean_ms(&theirs);
            let theirs_end = reqs.iter().map(|x| x.issued+x.response).max().unwrap();
            println!("{name:15} {run:36} mean {:8.3} theirs {:8.3} rms {:6.2}% cdf {:6.2}% end ratio {:.4}", mean_ms(&ours), m, 100.*rms_ms(&ours,&theirs)/m, 100.*demerit_ms(&ours,&theirs)/m, end as f64/theirs_end as f64);
            if std::env::var("DUMP").is_ok() {
                let mut shown=0;
                for (i,(a,r)) in ours.iter().zip(&reqs).enumerate() {
                    if a.abs_diff(r.response) > 20_000 { println!("   {i} lbn {} n {} w {} ours {:.6} theirs {:.6} diff {:.6}", r.lbn, r.sectors, r.write, *a as f64/1e6, r.response as f64/1e6, (*a as f64-r.response as f64)/1e6); shown+=1; if shown>12 {break} }
                }
            }
        }
        let path = root.join(format!("real-drive/{name}.measured_vs_disksim.csv.gz"));
        if path.exists() && "real".contains(&only) {
            let rows = measured(&root.join(format!("real-drive/{name}.validate.trace.gz")));
            let sim = predicted(&path);
            let ours = thinking(&p, &rows);
            let real: Vec<u64> = rows.iter().map(|r| r.request.response).collect();
            println!("{name:15} real: cdf ours {:.3} disksim {:.3}; request by request {:.3} disksim {:.3}; ours-disksim rbr {:.3} cdf {:.3}", demerit_ms(&ours,&real), demerit_ms(&sim,&real), rms_ms(&ours,&real), rms_ms(&sim,&real), rms_ms(&ours,&sim), demerit_ms(&ours,&sim));
            if let Ok(f) = std::env::var("OUT") { use std::io::Write; let mut o = std::fs::File::create(format!("{f}/{name}.csv")).unwrap(); for (i,r) in rows.iter().enumerate() { writeln!(o, "{},{},{},{},{},{},{}", if r.request.write {'W'} else {'R'}, r.request.lbn, r.request.sectors, r.think, r.request.response, sim[i], ours[i]).unwrap(); } }
        }
    }
}
