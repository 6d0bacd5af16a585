package apportion;

import java.io.File;
import java.util.Arrays;

/**
 * Runs another main class and ends the process as soon as standard input closes, so that no broker outlives its test;
 * then it sweeps away the folder of {@code -Dapportion.sweep}, which the parent no longer can.
 */
public final class Leash {
    public static void main(String[] args) throws Exception {
        hold();
        Class.forName(args[0])
            .getMethod("main", String[].class)
            .invoke(null, (Object) Arrays.copyOfRange(args, 1, args.length));
    }

    /** Ends this process when the parent dies, however it dies: its end of the pipe closes then. */
    private static void hold() {
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException closed) {
                // a broken pipe says the same as a closed one
            }
            String folder = System.getProperty("apportion.sweep");
            if (folder != null) sweep(new File(folder));
            Runtime.getRuntime().halt(137);
        }, "leash");
        watch.setDaemon(true);
        watch.start();
    }

    private static void sweep(File file) {
        File[] inside = java.nio.file.Files.isSymbolicLink(file.toPath()) ? null : file.listFiles();
        if (inside != null) for (File one : inside) sweep(one);
        file.delete();
    }
}
